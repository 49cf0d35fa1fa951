// The newest of everything that the server has sent; views and instruments read it.

import {GroundMap} from "./ground.js";
import {FLEET, GHOST, GROUND, IMAGE, LEARNED, OBSTACLES, OTHER_SHARING, OTHER_STATE, PLAN, SCAN, SHARING, STATE, readSharing, readState, rows, scanPoints, unpack} from "./wire.js";

const LASTS = 1500;  // ms
const POSES = 100;
/** @type {number[][]} */
const NONE = [];
const NO_SHAPES = {discs: [], lines: []};

export class Model {
  constructor() {
    /** @type {import("./wire.js").State | null} */
    this.state = null;
    this.receivedAt = -Infinity;  // of the state, ms of performance.now
    /** @type {Float32Array} */
    this.points = new Float32Array();  // of the scan, in the frame of `scanned`
    this.scanned = [0, 0, 0];  // x, y, yaw of the vehicle at the time of the scan
    /** @type {number[][]} */
    this.poses = [];  // stamp, x, y, yaw of the last states
    /** @type {number[][]} */
    this.plan = [];  // rows x, y, speed
    /** @type {number[][]} */
    this.obstacles = [];  // rows x, y, radius, vx, vy
    /** @type {ReturnType<typeof readSharing> | null} */
    this.sharing = null;
    /** @type {Record<string, any>} */
    this.texts = {world: NO_SHAPES, route: {route: NO_SHAPES, goal: NO_SHAPES, corridor: NO_SHAPES}, vehicle: null, seat: null, sharing: null, simulator: null,
      controller: null, calibration: null, calibrator: null, warnings: {warnings: []}, answer: null, replay: null, recording: null, link: null, events: null,
      choices: null, settings: null, fleet: null};
    /** @type {number[] | null} */
    this.ghost = null;  // x, y, yaw of the vehicle now, where the state comes over a link; of a replay: of the other recording's
    /** @type {number[][]} */
    this.fleet = NONE;  // rows of other vehicles: number among texts.fleet.names, x, y, yaw, speed, outline ahead, behind, to a side
    /** @type {import("./wire.js").State | null} */
    this.other = null;  // of a second recording, with stamps of the first
    /** @type {ReturnType<typeof readSharing> | null} */
    this.otherSharing = null;
    /** @type {Uint8Array<ArrayBuffer> | null} */
    this.image = null;  // of the camera, JPEG
    /** @type {GroundMap | null} */
    this.ground = null;  // as it is simulated
    /** @type {GroundMap | null} */
    this.learned = null;
    /** @type {{map: GroundMap, relief: GroundMap, picture: HTMLCanvasElement} | null} */
    this.surface = null;  // of the ground as it is drawn
    this.initial = {...this.texts};
    /** @type {Record<string, number>} */
    this.heardAt = {};  // ms of performance.now, by kind
    this.spin = [0, 0, 0, 0];  // angle of each wheel, rad
  }

  /**
   * Takes a message of the server.
   * @param {ArrayBuffer | string} data
   * @param {number} now ms of performance.now
   * @returns {string} its kind
   */
  take(data, now) {
    if (typeof data === "string") {
      const text = JSON.parse(data);
      this.texts[text.kind] = text.none ? this.initial[text.kind] : text;
      this.heardAt[text.kind] = now;
      return text.kind;
    }
    const message = unpack(data), none = !message.values.length;
    this.heardAt[message.kind] = now;
    if (message.kind === STATE && none) this.state = null;
    else if (message.kind === STATE) {
      const state = readState(message), step = this.state ? state.stamp - this.state.stamp : 0;
      if (step > 0 && step < 1) this.spin = this.spin.map((angle, i) => (angle + step * (state.wheelSpeeds[i] || 0)) % (2 * Math.PI));
      this.state = state;
      this.receivedAt = now;
      if (step < 0) this.poses = [];
      this.poses.push([state.stamp, state.x, state.y, state.yaw]);
      if (this.poses.length > POSES) this.poses.shift();
      return "state";
    }
    if (message.kind === SCAN) [this.points, this.scanned] = [scanPoints(message), this.#poseAt(message.stamp)];
    if (message.kind === PLAN) this.plan = rows(message.values, 3);
    if (message.kind === OBSTACLES) this.obstacles = rows(message.values, 5);
    if (message.kind === FLEET) this.fleet = rows(message.values, 8);
    if (message.kind === GHOST) this.ghost = Array.from(message.values);
    if (message.kind === OTHER_STATE) {
      this.other = none ? null : readState(message);
      this.ghost = this.other && [this.other.x, this.other.y, this.other.yaw];
    }
    if (message.kind === OTHER_SHARING) this.otherSharing = none ? null : readSharing(message);
    if (message.kind === IMAGE) this.image = none ? null : message.values;
    if (message.kind === GROUND) this.ground = none ? null : new GroundMap(/** @type {ArrayBuffer} */ (data));
    if (message.kind === LEARNED) this.learned = none ? null : new GroundMap(/** @type {ArrayBuffer} */ (data));
    if (message.kind === SHARING) this.sharing = none ? null : readSharing(message);
    return {[SCAN]: "scan", [PLAN]: "plan", [OBSTACLES]: "obstacles", [SHARING]: "sharing values", [GHOST]: "ghost", [FLEET]: "fleet values", [IMAGE]: "image", [OTHER_STATE]: "other state", [OTHER_SHARING]: "other sharing", [GROUND]: "ground map", [LEARNED]: "learned map"}[message.kind] ?? "unknown";
  }

  /** Pose of the vehicle (x, y, yaw) nearest to a time [s]: points of a scan stand where they were seen, not where the vehicle has got to. */
  #poseAt(stamp) {
    const nearer = (one, other) => Math.abs(other[0] - stamp) < Math.abs(one[0] - stamp) ? other : one;
    return this.poses.length ? this.poses.reduce(nearer).slice(1) : [0, 0, 0];
  }

  /**
   * Forgets what is repeated several times a second and has not been heard for a while: it is not so any more.
   * @param {number} now ms
   */
  forget(now) {
    const old = kind => now - (this.heardAt[kind] ?? -Infinity) > LASTS;
    if (old(SHARING)) [this.sharing, this.texts.sharing] = [null, null];
    if (old(SCAN)) this.points = new Float32Array();
    if (old(PLAN)) this.plan = [];
    if (old(OBSTACLES)) this.obstacles = NONE;
    if (old("controller")) this.texts.controller = null;
    if (old(GHOST)) this.ghost = null;
    if (old(FLEET)) this.fleet = NONE;
    if (old(IMAGE)) this.image = null;
  }

  /** Loads of the wheels as shares of the weight on each at rest; NaN where the vehicle's weight is not known. */
  get loads() {
    const vehicle = this.texts.vehicle;
    if (!this.state || !vehicle || !vehicle.wheelbase) return [NaN, NaN, NaN, NaN];
    const front = 0.5 * vehicle.weight * vehicle.rear_axle / vehicle.wheelbase, rear = 0.5 * vehicle.weight * vehicle.front_axle / vehicle.wheelbase;
    return this.state.loads.map((load, i) => load / (i < 2 ? front : rear));
  }

  /** Outlines that are drawn as wire frames, the ghost's and those of other vehicles: rows x, y, yaw, ahead, behind, to a side. */
  get frames() {
    const d = this.dimensions, own = this.ghost ? [[...this.ghost, d.outline_front, d.outline_rear, d.outline_half_width]] : NONE;
    return [...own, ...this.fleet.map(([, x, y, yaw, , ...outline]) => [x, y, yaw, ...outline])];
  }

  /** Height of the ground at a place [m]. */
  height(x, y) {
    return this.ground?.height(x, y) ?? 0;
  }

  /** Dimensions of the vehicle [m], or those of a car while none have come. */
  get dimensions() {
    return this.texts.vehicle ?? {front_axle: 1.4, rear_axle: 1.4, track_front: 1.6, track_rear: 1.6, wheel_radius: 0.35, outline_front: 2.2,
      outline_rear: 2.2, outline_half_width: 0.9, full_lock: 0.6};
  }
}
