// Connections to the server: session, view, input. Liveness is judged by the age of the state, since an open socket may be dead.

/**
 * Exchanges the token of the address for a session and removes it from the address bar.
 * @returns {Promise<string>} empty, or the reason that there is no session
 */
export async function openSession() {
  const parameters = new URLSearchParams(location.hash.slice(1));
  const token = parameters.get("token") ?? "";
  parameters.delete("token");
  history.replaceState(null, "", location.pathname + location.search + (parameters.size ? `#${parameters}` : ""));
  try {
    const response = await fetch("session", {method: "POST", body: token});
    return response.ok ? "" : "no access: open the address that lfdm cockpit has printed, with its token";
  } catch {
    return "no server";
  }
}

/** Number of this page, by which the server pairs its two connections. */
const PAGE = crypto.getRandomValues(new Uint32Array(2)).join("");

const address = (/** @type {string} */ path) => `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/${path}?page=${PAGE}`;
const RETRY = 1000, ACKNOWLEDGE = 30;  // ms

/** Receives the view, acknowledges each message, and connects again after a loss. */
export class ViewLink {
  /** @param {(data: ArrayBuffer | string) => void} onMessage @param {(open: boolean) => void} onChange */
  constructor(onMessage, onChange) {
    this.onMessage = onMessage;
    this.onChange = onChange;
    this.stopWanted = false;
    this.received = this.acknowledged = 0;
    this.socket = this.#connect();
  }

  /** Returns a new connection. */
  #connect() {
    const socket = new WebSocket(address("view"));
    socket.binaryType = "arraybuffer";
    this.received = this.acknowledged = 0;
    socket.onopen = () => {
      if (this.stopWanted) this.request("stop", true);
      this.onChange(true);
    };
    socket.onmessage = event => {
      this.received += 1;
      this.onMessage(event.data);
      // Every second one at once: each costs the server as much as a message. The others soon: its credit is small.
      if (this.received % 2 === 0) this.#acknowledge(socket);
      else setTimeout(() => this.#acknowledge(socket), ACKNOWLEDGE);
    };
    socket.onclose = () => {
      this.onChange(false);
      setTimeout(() => { this.socket = this.#connect(); }, RETRY);
    };
    return socket;
  }

  /** @param {WebSocket} socket */
  #acknowledge(socket) {
    if (this.received === this.acknowledged || socket !== this.socket || socket.readyState !== WebSocket.OPEN) return;
    this.acknowledged = this.received;
    socket.send(`{"ack":${this.received}}`);
  }

  /** Sends a request; a stop as soon as there is a connection. @param {string} name @param {unknown} value */
  request(name, value) {
    const open = this.socket.readyState === WebSocket.OPEN;
    if (name === "stop") this.stopWanted = !open;
    if (open) this.socket.send(JSON.stringify({[name]: value}));
  }
}

/** Sends inputs. Old ones are dropped, not queued, while the socket has unsent data. */
export class InputLink {
  constructor() {
    this.number = 0;
    this.socket = this.#connect();
  }

  /** Returns a new connection. */
  #connect() {
    const socket = new WebSocket(address("input"));
    socket.onclose = () => setTimeout(() => { this.socket = this.#connect(); }, RETRY);
    return socket;
  }

  /**
   * Sends an intent, with the number of the newest state that is on the screen.
   * @param {import("./hands.js").Intent} intent
   * @param {number} picture
   */
  send(intent, picture) {
    if (this.socket.readyState !== WebSocket.OPEN || this.socket.bufferedAmount > 2000) return;
    this.number += 1;
    this.socket.send(JSON.stringify({number: this.number, time: performance.now() / 1000, held: intent.held, steering: intent.steering,
      throttle: intent.throttle, brake: intent.brake, picture}));
  }
}
