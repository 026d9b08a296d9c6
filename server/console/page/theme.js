// Light or dark: as the system says, or as a person has chosen in this browser.

const kKey = "echotrain-theme";

/** `select` has the values "" (as the system), "light" and "dark". */
export function chooseTheme(select) {
  const set = (theme) => {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  };
  try {
    select.value = localStorage.getItem(kKey) ?? "";
  } catch {
    // The browser keeps nothing: the choice lasts as long as the page.
  }
  if (select.selectedIndex < 0) select.value = "";
  set(select.value);
  select.addEventListener("change", () => {
    set(select.value);
    try {
      localStorage.setItem(kKey, select.value);
    } catch {
      // As above.
    }
  });
}
