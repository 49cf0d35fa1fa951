// The bird's view on a two-dimensional canvas, for browsers without WebGL.

import {rows} from "./wire.js";

const METRES = 60;  // shown ahead and across

export class Bird {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.dead = false;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  }

  /** Draws the model, the vehicle's heading upwards. @param {import("./model.js").Model} model */
  draw(model) {
    const {canvas, context: c} = this, state = model.state;
    if (canvas.width !== canvas.clientWidth || canvas.height !== canvas.clientHeight) [canvas.width, canvas.height] = [canvas.clientWidth, canvas.clientHeight];
    c.setTransform(1, 0, 0, 1, 0, 0);
    c.fillStyle = "#22303c";
    c.fillRect(0, 0, canvas.width, canvas.height);
    if (!state) return;
    const scale = Math.min(canvas.width, canvas.height) / METRES;
    c.translate(canvas.width / 2, 0.75 * canvas.height);
    c.scale(scale, -scale);
    c.rotate(Math.PI / 2 - state.yaw);
    c.translate(-state.x, -state.y);
    if (model.surface) {
      const {map, picture} = model.surface, d = map.spacing;
      c.imageSmoothingEnabled = false;
      c.drawImage(picture, map.x - 0.5 * d, map.y - 0.5 * d, map.nx * d, map.ny * d);
    }
    c.lineWidth = 1 / scale;
    c.strokeStyle = "#3a4650";
    const [x0, y0] = [10 * Math.round(state.x / 10), 10 * Math.round(state.y / 10)];
    for (let i = -10; i <= 10; i++) this.#path([[x0 + 10 * i, y0 - 100], [x0 + 10 * i, y0 + 100]]), this.#path([[x0 - 100, y0 + 10 * i], [x0 + 100, y0 + 10 * i]]);
    for (const [x, y, r] of model.texts.world.discs) this.#disc(x, y, r, "#8a8f96");
    c.strokeStyle = "#8a8f96";
    c.lineWidth = 2 / scale;
    for (const line of model.texts.world.lines) this.#path(line);
    for (const [x, y, r, vx, vy] of model.obstacles) {
      this.#disc(x, y, r, "#d55e0088");
      c.strokeStyle = "#d55e00";
      this.#path([[x, y], [x + vx, y + vy]]);
    }
    for (const [x, y, r] of model.texts.route.goal?.discs ?? []) this.#disc(x, y, r, "#009e7388");
    c.strokeStyle = "#c8ccd0";
    for (const line of model.texts.route.corridor?.lines ?? []) this.#path(line);
    c.strokeStyle = "#3b6fb5";
    for (const line of model.texts.route.route?.lines ?? []) this.#path(line);
    c.strokeStyle = "#56b4e9";
    c.lineWidth = 3 / scale;
    this.#path(model.plan);
    for (const frame of model.frames) this.#frame(frame);
    this.#vehicle(model, state);
  }

  /** @param {number[]} outline x, y, yaw, ahead, behind, to a side */
  #frame(outline) {
    const c = this.context, [x, y, yaw, ahead, behind, half] = outline;
    this.#at([x, y, yaw], () => {
      c.strokeStyle = "#fff";
      c.strokeRect(-behind, -half, ahead + behind, 2 * half);
    });
  }

  /** Draws in a frame. @param {number[]} pose x, y, yaw @param {() => void} draw */
  #at([x, y, yaw], draw) {
    this.context.save();
    this.context.translate(x, y);
    this.context.rotate(yaw);
    draw();
    this.context.restore();
  }

  /** @param {import("./model.js").Model} model @param {import("./wire.js").State} state */
  #vehicle(model, state) {
    const c = this.context, d = model.dimensions;
    this.#at(model.scanned, () => {
      c.fillStyle = "#f0e442";
      for (let i = 0; i < model.points.length; i += 2) c.fillRect(model.points[i] - 0.1, model.points[i + 1] - 0.1, 0.2, 0.2);
    });
    this.#at(model.swept, () => {
      c.strokeStyle = "#cc79a7";
      for (const [x0, y0, x1, y1] of rows(model.radar, 4)) this.#path([[x0, y0], [x1, y1]]);
    });
    c.translate(state.x, state.y);
    c.rotate(state.yaw);
    c.fillStyle = "#b9c2cc";
    c.fillRect(-d.outline_rear, -d.outline_half_width, d.outline_front + d.outline_rear, 2 * d.outline_half_width);
    c.fillStyle = "#222529";
    for (const [x, y, angle] of [[d.front_axle, d.track_front / 2, state.roadWheelAngle], [d.front_axle, -d.track_front / 2, state.roadWheelAngle],
      [-d.rear_axle, d.track_rear / 2, 0], [-d.rear_axle, -d.track_rear / 2, 0]]) {
      this.#at([x, y, angle || 0], () => c.fillRect(-d.wheel_radius, -0.15, 2 * d.wheel_radius, 0.3));
    }
  }

  /** @param {number} x @param {number} y @param {number} radius @param {string} colour */
  #disc(x, y, radius, colour) {
    this.context.fillStyle = colour;
    this.context.beginPath();
    this.context.arc(x, y, radius, 0, 2 * Math.PI);
    this.context.fill();
  }

  /** @param {number[][]} points rows x, y, ... */
  #path(points) {
    this.context.beginPath();
    points.forEach(([x, y], i) => i ? this.context.lineTo(x, y) : this.context.moveTo(x, y));
    this.context.stroke();
  }
}
