// The dialogue in which a device is taught.

import {connectedPads, keepMapping, mappingOf, taughtMapping} from "./devices.js";
import {find, make} from "./elements.js";
import {Teacher} from "./teach.js";

/** Dialogue of the prompts. Not modal, so that STOP stays available. */
export class TeachDialogue {
  /**
   * @param {HTMLDialogElement} place
   * @param {import("./input.js").Input} input gives its pads to the dialogue while it is open, and drives nothing
   * @param {(text: string) => void} notify
   */
  constructor(place, input, notify) {
    this.place = place;
    this.input = input;
    this.notify = notify;
    const part = (/** @type {string} */ name) => find(`teach-${name}`);
    this.title = part("title"), this.device = find("teach-device", HTMLSelectElement), this.count = part("count"), this.prompt = part("prompt");
    this.reads = part("reads"), this.error = part("error"), this.forget = part("forget");
    this.pad = /** @type {Gamepad | undefined} */ (undefined);
    this.teacher = new Teacher();
    part("cancel").onclick = () => this.close();
    this.cancel = part("cancel");
    this.device.onchange = () => this.#choose(Number(this.device.value));
    this.forget.onclick = () => {
      if (!this.pad) return;
      keepMapping(this.pad.id, null);
      this.close();
      this.notify(this.pad.mapping === "standard" ? `${this.pad.id}: standard layout again` : "");
    };
    // Esc in here only closes this; a second one is STOP. The page ignores other keys.
    place.addEventListener("keydown", event => {
      event.stopPropagation();
      if (event.code === "Escape") event.preventDefault(), this.close();
    });
  }

  /** Begins with an unknown device, or else the first. */
  open() {
    const pads = connectedPads();
    if (this.place.open || !pads.length) return;
    this.device.replaceChildren(...pads.map(pad => make("option", {value: String(pad.index), textContent: pad.id})));
    find("teach-devices").hidden = pads.length < 2;
    this.device.value = String((pads.find(pad => !mappingOf(pad)) ?? pads[0]).index);
    this.place.show();
    this.#choose(Number(this.device.value));
    this.cancel.focus();
  }

  /** Ends without a mapping. */
  close() {
    this.place.close();
    this.input.lend(null);
    // Focus not on the button that opened this, which would consume the space bar, the brake.
    if (document.activeElement instanceof HTMLElement) document.activeElement.blur();
  }

  /** @param {number} index of the device */
  #choose(index) {
    this.pad = connectedPads().find(pad => pad.index === index);
    this.teacher = new Teacher();
    this.title.textContent = `Teach ${this.pad?.id ?? "device"}`;
    this.forget.hidden = !this.pad || !taughtMapping(this.pad.id);
    this.input.lend(pads => this.#step(pads.find(pad => pad.index === index)));
  }

  /** @param {Gamepad | undefined} pad */
  #step(pad) {
    if (!pad) {
      this.close();
      this.notify("The device that was to be taught is gone.");
      return;
    }
    const {prompt, number, of, reads, done, error, mapping} = this.teacher.step(pad, performance.now() / 1000);
    const set = (/** @type {HTMLElement} */ part, /** @type {string} */ text) => { if (part.textContent !== text) part.textContent = text; };  // else readers for the blind would repeat it
    set(this.count, `${number} of ${of}`);
    set(this.prompt, prompt);
    set(this.reads, reads);
    set(this.error, error);
    if (!done || !mapping) return;
    const kept = keepMapping(pad.id, mapping);
    this.close();
    this.notify(kept ? "" : "This browser keeps nothing: teach the device anew after the page is loaded again.");
  }
}
