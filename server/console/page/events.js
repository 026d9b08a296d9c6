// The stream of events, which is opened again when the server was away.

const kRetry_ms = 1000;

/** Calls on.state(object), on.image({scan, image}), on.viewer(number) and on.link("open" | "lost" | text). */
export function listen(on) {
  let source = null;
  let waiting = null;

  async function reason() {
    try {
      const response = await fetch("/live/state");
      if (response.status === 401 || response.status === 403) return (await response.text()).trim();
      if (response.ok) return "as many as may look on do already";
    } catch {
      // The server is away.
    }
    return "lost";
  }

  function open() {
    waiting = null;
    const mine = new EventSource("/live/events");
    source = mine;
    source.addEventListener("hello", (event) => {
      on.link("open");
      on.viewer(JSON.parse(event.data).viewer);
    });
    source.addEventListener("state", (event) => on.state(JSON.parse(event.data)));
    source.addEventListener("image", (event) => on.image(JSON.parse(event.data)));
    source.addEventListener("error", async () => {
      mine.close();
      const why = await reason();
      if (mine !== source) return; // another one was opened meanwhile
      on.link(why);
      if (!waiting) waiting = setTimeout(open, kRetry_ms);
    });
  }

  open();
  return {
    /** Opens it anew at once, after a login. */
    again() {
      clearTimeout(waiting);
      source.close();
      open();
    },
  };
}
