// Controls of a replay: play, speed, a slider with marks of events, a link to the moment.

import {make} from "./elements.js";

/** @typedef {import("./model.js").ReplayText} ReplayText */

const RATES = [0.1, 0.25, 0.5, 1, 2, 4, 8];
/** Steps of keys [s]. @type {Record<string, number>} */
const STEPS = {ArrowLeft: -1, ArrowRight: 1, Comma: -0.05, Period: 0.05};
const FADE = 3;  // s that an event's text stays

const clock = (/** @type {number} */ seconds) => `${Math.floor(seconds / 60)}:${(seconds % 60).toFixed(1).padStart(4, "0")}`;

export class ReplayBar {
  /** @param {HTMLElement} place @param {(name: string, value: unknown) => void} request */
  constructor(place, request) {
    this.place = place;
    this.request = request;
    this.dragging = false;
    this.events = "";
    /** @type {ReplayText | null} */
    this.status = null;
    this.play = make("button", {type: "button", id: "play", onclick: () => request("play", !this.status?.playing)});
    this.rate = make("select", {id: "rate", ariaLabel: "speed of the replay", onchange: () => { request("rate", Number(this.rate.value)); this.rate.blur(); }});
    this.rate.append(...RATES.map(rate => make("option", {value: String(rate), textContent: `${rate} x`})));
    this.slider = make("input", {type: "range", id: "time", min: "0", step: "0.01", ariaLabel: "time of the recording"});
    this.slider.addEventListener("input", () => { this.dragging = true; request("seek", Number(this.slider.value)); });
    this.slider.addEventListener("change", () => { this.dragging = false; });
    this.time = make("output", {id: "replay-time"});
    this.marks = make("div", {id: "marks"});
    this.event = make("span", {id: "event"});
    this.link = make("button", {type: "button", textContent: "link", title: "puts this moment into the address", onclick: () => this.#linkTo()});
    place.append(this.play, this.rate, make("div", {id: "track"}, this.slider, this.marks), this.time, this.link, this.event);
  }

  /** Writes the time into the address, for links. */
  #linkTo() {
    history.replaceState(null, "", `${location.pathname}${location.search}#t=${(this.status?.time ?? 0).toFixed(2)}`);
  }

  /** Seeks to the time in the address: #t=12.3. */
  seekAddress() {
    const seconds = Number(new URLSearchParams(location.hash.slice(1)).get("t") ?? NaN);
    if (Number.isFinite(seconds)) {
      this.request("play", false);
      this.request("seek", seconds);
    }
  }

  /** Shows the state of the replay. @param {ReplayText} status @param {[number, string][]} events */
  show(status, events) {
    const first = !this.status;
    this.status = status;
    this.place.hidden = false;
    this.play.textContent = status.playing ? "pause" : "play";
    if (document.activeElement !== this.rate) this.rate.value = String(status.rate);
    this.slider.max = String(status.duration);
    if (!this.dragging) this.slider.value = String(status.time);
    this.time.textContent = `${clock(status.time)} of ${clock(status.duration)}${status.loaded < 1 ? `, ${Math.round(100 * status.loaded)} % read` : ""}`;
    const key = `${events.length} ${status.duration}`;
    if (key !== this.events) {
      this.events = key;
      this.marks.replaceChildren(...events.map(([time, text]) => {
        const title = `${clock(time)} ${text}`;
        const mark = make("button", {type: "button", title, ariaLabel: title, onclick: () => this.request("seek", Math.max(time - 1, 0))});
        mark.style.left = `${100 * time / Math.max(status.duration, 0.01)}%`;
        return mark;
      }));
    }
    const last = events.filter(([time]) => time <= status.time && status.time - time < FADE).at(-1);
    this.event.textContent = last ? last[1] : "";
    if (first) this.seekAddress();
  }

  /** Handles a key; returns whether it was one of the replay's. @param {string} code */
  key(code) {
    const step = STEPS[code];
    if (code === "Space") this.play.click();
    else if (step && this.status) this.request("seek", this.status.time + step);
    return code === "Space" || Boolean(step);
  }
}
