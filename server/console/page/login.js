// Login with the administrator's token. The browser keeps a cookie that no script can read; requests that change
// something also carry a word that only this page knows.

import { byId, make } from "./dom.js";

export class Login {
  constructor(changed) {
    this.changed = changed;
    this.loggedIn = false;
    this.csrf = "";
    this.parent = byId("login");
  }

  async refresh() {
    const response = await fetch("/live/login");
    if (!response.ok) return;
    const { possible, logged_in: loggedIn, csrf } = await response.json();
    this.loggedIn = loggedIn;
    this.csrf = csrf;
    this.show(possible);
  }

  show(possible) {
    if (!possible) {
      this.parent.replaceChildren(make("span", { class: "quiet" }, "read-only"));
    } else if (this.loggedIn) {
      this.parent.replaceChildren(
        make("span", {}, "logged in"),
        make("button", { type: "button", click: () => this.logOut() }, "Log out"),
      );
    } else {
      const field = make("input", { type: "password", autocomplete: "current-password", "aria-label": "administrator's token", placeholder: "token" });
      // Who keeps the token in the browser finds it by this name.
      const name = make("input", { autocomplete: "username", value: "administrator", hidden: true });
      const form = make("form", {}, name, field, " ", make("button", {}, "Log in"));
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        this.logIn(field.value);
      });
      this.message = make("span", { class: "error", role: "status" });
      this.parent.replaceChildren(this.message, form);
    }
  }

  async logIn(token) {
    const response = await fetch("/login", { method: "POST", headers: { Authorization: `Bearer ${token}` } });
    if (!response.ok) {
      this.message.textContent = (await response.text()).trim();
      return;
    }
    await this.refresh();
    this.changed();
  }

  async logOut() {
    await this.post("/logout");
    await this.refresh();
    this.changed();
  }

  /** `type` is that of `body`; without them the request has none. */
  post(path, body, type) {
    const headers = { "X-Echotrain-CSRF": this.csrf };
    if (type) headers["Content-Type"] = type;
    return fetch(path, { method: "POST", headers, body });
  }
}
