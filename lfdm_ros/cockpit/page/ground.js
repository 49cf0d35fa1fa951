// The ground: heights and friction by place, simulated and learned; its picture and legend.

import {context2d, make} from "./elements.js";

const HEADER = 16, SCALARS = 11;  // of the message: bytes, then float32 values
const UNKNOWN_SD = 0.3, HATCHED_SD = 0.1;  // of friction: unknown; uncertain
const DRY = [46, 38, 66], ICE = [226, 205, 250], BASE = [42, 49, 56];  // one hue: the lighter, the more slippery
const LINES = 10;  // m between two lines on the ground

/** A map of the ground; beyond its edges the value of the nearest place holds. */
export class GroundMap {
  /** @param {ArrayBuffer} buffer message of kind GROUND or LEARNED, see `ground` of page_messages.py */
  constructor(buffer) {
    const [x, y, spacing, nx, ny, ...scales] = new Float32Array(buffer, HEADER, SCALARS);
    this.x = x, this.y = y, this.spacing = spacing, this.nx = nx, this.ny = ny;
    let at = HEADER + 4 * SCALARS;
    const layers = [0, 1, 2].map(k => {
      const [least, step] = scales.slice(2 * k, 2 * k + 2);
      if (!step) return new Float32Array(nx * ny).fill(least);
      const codes = new Uint16Array(buffer, at, nx * ny);
      at += 2 * nx * ny + (-2 * nx * ny & 3);
      return Float32Array.from(codes, code => code ? least + (code - 1) * step : NaN);
    });
    this.heights = layers[0], this.frictions = layers[1], this.sds = layers[2];
    /** Friction at the dark end of the ramp. */
    this.top = this.frictions.reduce((top, value) => value > top ? value : top, 1);
  }

  /** Returns the value of a layer at a place [m], bilinear. @param {Float32Array} layer @param {number} x @param {number} y */
  at(layer, x, y) {
    const {nx, ny} = this, clamp = (/** @type {number} */ value, /** @type {number} */ most) => Math.min(Math.max(value, 0), most);
    const u = clamp((x - this.x) / this.spacing, nx - 1), v = clamp((y - this.y) / this.spacing, ny - 1);
    const i = Math.min(Math.floor(u), nx - 2), j = Math.min(Math.floor(v), ny - 2), k = j * nx + i, s = u - i, t = v - j;
    return (1 - t) * ((1 - s) * layer[k] + s * layer[k + 1]) + t * ((1 - s) * layer[k + nx] + s * layer[k + nx + 1]);
  }

  /** @param {number} x @param {number} y */
  height(x, y) {
    return this.at(this.heights, x, y) || 0;
  }

  /** Returns the slopes along x and y. @param {number} x @param {number} y */
  slope(x, y) {
    const d = 0.5 * this.spacing;
    return [(this.height(x + d, y) - this.height(x - d, y)) / (2 * d), (this.height(x, y + d) - this.height(x, y - d)) / (2 * d)];
  }
}

/** Mixes two colours. @param {number[]} a @param {number[]} b @param {number} share of b */
const mixed = (a, b, share) => a.map((value, k) => value + share * (b[k] - value));

/** Returns the colour of a certain friction. @param {number} friction @param {number} top */
export const colour = (friction, top) => mixed(ICE, DRY, Math.min(Math.max(friction / top, 0), 1));

/**
 * Draws a map, a pixel for each node, the first row at the top: friction by colour, fainter and hatched where it is uncertain; slopes shaded.
 * @param {GroundMap} map whose friction is shown
 * @param {GroundMap} relief that has the heights
 * @param {boolean} plain without the friction
 * @returns {HTMLCanvasElement}
 */
export function picture(map, relief, plain) {
  const canvas = make("canvas", {width: map.nx, height: map.ny}), context = context2d(canvas);
  const image = context.createImageData(map.nx, map.ny), onLine = (/** @type {number} */ value) => map.spacing < LINES / 4 && ((value % LINES) + LINES) % LINES < map.spacing;
  for (let j = 0; j < map.ny; j++) {
    for (let i = 0; i < map.nx; i++) {
      const k = j * map.nx + i, x = map.x + i * map.spacing, y = map.y + j * map.spacing, sd = map.sds[k];
      const known = !plain && Number.isFinite(map.frictions[k]) ? 1 - 0.85 * Math.min(sd / UNKNOWN_SD, 1) : 0;
      const shown = sd > HATCHED_SD && (i + j) % 4 === 0 ? 0 : known;
      const [along, across] = relief.slope(x, y);
      const shade = Math.min(Math.max(1 + 2 * (across - along), 0.4), 1.6) * (onLine(x) || onLine(y) ? 1.25 : 1);
      image.data.set([...mixed(BASE, colour(map.frictions[k] || 0, map.top), shown).map(value => value * shade), 255], 4 * k);
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

/** Selects the displayed layer of the ground and its legend. */
export class GroundLegend {
  /** @param {HTMLElement} stage */
  constructor(stage) {
    this.choice = make("select", {id: "ground-shown", onchange: () => { this.wanted = this.choice.value; this.choice.blur(); }}, ...["learned", "simulated", "none"].map(
      value => make("option", {value, textContent: value})));
    this.wanted = "learned";
    /** @type {GroundMap | null} */
    this.shown = null;
    /** @type {GroundMap | null} */
    this.relief = null;
    this.plain = false;
    this.ramp = make("canvas", {width: 160, height: 12});
    this.marks = make("div", {id: "ground-marks"});
    this.here = make("output", {id: "ground-here"});
    this.place = make("div", {id: "ground", hidden: true}, make("label", {}, "friction ", this.choice), this.ramp, this.marks,
      make("div", {textContent: `hatched: deviation above ${HATCHED_SD}`}), this.here);
    stage.append(this.place);
  }

  /** Selects the map, and draws its picture after a change. @param {import("./model.js").Model} model */
  show(model) {
    const {ground, learned, state} = model, [first, second] = this.choice.options;
    this.place.hidden = !ground && !learned;
    first.disabled = !learned;
    second.disabled = !ground;
    const plain = this.wanted === "none", map = plain ? ground : this.wanted === "learned" && learned || ground || learned;
    if (document.activeElement !== this.choice) this.choice.value = plain ? "none" : map === learned ? "learned" : "simulated";
    if (map && map !== this.shown) {
      const context = context2d(this.ramp);
      for (let i = 0; i < 160; i++) {
        context.fillStyle = `rgb(${colour(map.top * i / 159, map.top)})`;
        context.fillRect(i, 0, 1, 12);
      }
      this.marks.replaceChildren(...[0, 0.5, 1].map(share => make("span", {textContent: (share * map.top).toFixed(2)})));
    }
    if (map !== this.shown || ground !== this.relief || plain !== this.plain) {
      model.surface = map && {map, relief: ground ?? map, picture: picture(map, ground ?? map, plain)};
    }
    [this.shown, this.relief, this.plain] = [map, ground, plain];
    if (!state || !map) { this.here.textContent = ""; return; }
    const [friction, sd] = [map.frictions, map.sds].map(layer => map.at(layer, state.x, state.y));
    this.here.textContent = `here ${friction.toFixed(2)} ± ${sd.toFixed(2)} of the road's own, height ${model.height(state.x, state.y).toFixed(1)} m`;
    document.body.dataset.ground = `${map === learned ? "learned" : "simulated"} ${friction.toFixed(2)}`;
  }
}
