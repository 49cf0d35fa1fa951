// The newest messages of the server, for views and instruments.

import {GroundMap} from "./ground.js";
import {FLEET, GHOST, GROUND, IMAGE, LEARNED, OBSTACLES, OTHER_SHARING, OTHER_STATE, PLAN, RADAR, SCAN, SHARING, STATE, radarLines, readSharing, readState, rows, scanPoints, unpack} from "./wire.js";

const LASTS = 1500;  // ms
const POSES = 100;
/** @type {number[][]} */
const NONE = [];
/** @type {Shapes} */
const NO_SHAPES = {discs: [], lines: []};

/**
 * Texts of the server by kind, as page_messages.py, server.py and nodes/cockpit.py write them; a number that is not finite is null.
 * @typedef {number | null} Value
 * @typedef {{discs: number[][], lines: number[][][]}} Shapes rows x, y, radius; places x, y of each line
 * @typedef {{vehicle: string, wheelbase: number, front_axle: number, rear_axle: number, track_front: number, track_rear: number, wheel_radius: number,
 *   full_lock: number, outline_front: number, outline_rear: number, outline_half_width: number, weight: number}} Dimensions
 * @typedef {{driver: string, drives: boolean, reason: string, stopped: boolean, yours: boolean, pages: number, refused: number}} SeatText
 * @typedef {{mode: string, state: string, reason: string, emergency_stop: boolean, posterior: number, takeover: string, takeover_reason: string,
 *   takeover_time_left: Value, threats: [string, Value][], risks: [string, Value, Value, Value][]}} SharingText threats by component; risks with interval
 * @typedef {{model: string, paused: boolean, pace: Value, pace_asked: Value, slowed_by: string, no_command: boolean, collisions: number,
 *   collided_with: string, not_driven: string}} SimulatorText
 * @typedef {{outcome: string, cycle_time: Value, distance_to_go: Value}} ControllerText
 * @typedef {{progress: number, in_force: number, gates: [string, boolean, string][]}} CalibratorText
 * @typedef {{name: string, unit: string, prior: number[], posterior: number[]}} Learned lower end, middle, upper end
 * @typedef {{bag: string, stage: string, text?: string, version?: number, learned?: Learned[],
 *   survey?: {expected: Record<string, number>, known: Record<string, string>, missing: string[], reasons: string[]},
 *   comparison?: {split: string, errors: Record<string, number[]>, channels: Record<string, Record<string, number[]>>}}} CardText
 * @typedef {{time: number, duration: number, playing: boolean, rate: number, loaded: number, name: string, other: string}} ReplayText
 * @typedef {{scenario: string[], ground: string[], law: string[], threats: string[]}} ChoicesText
 * @typedef {{scenario: string, ground: string, scenario_seed: number, ground_seed: number, freeze_state: boolean, imposed_friction: number,
 *   withheld_sensors: string[], disturbed_sensors: string[], sensors: string[]}} SimulatorSettings
 * @typedef {{vehicle_simulator?: SimulatorSettings, shared_control?: {law: string, threats: string[]}, teleop_link?: {up_jitter: number, up_drop: number}}} Settings
 * @typedef {{world: Shapes, route: {route: Shapes, goal: Shapes, corridor: Shapes}, vehicle: Dimensions | null, seat: SeatText | null,
 *   sharing: SharingText | null, simulator: SimulatorText | null, controller: ControllerText | null, calibration: CardText | null,
 *   calibrator: CalibratorText | null, warnings: {warnings: [number, string, string][]}, answer: {service: string, text: string} | null,
 *   replay: ReplayText | null, recording: {records: boolean, bag: string} | null, link: {p50: Value[]} | null,
 *   events: {events: [number, string][]} | null, choices: ChoicesText | null, settings: {nodes: Settings, restarting: string} | null,
 *   fleet: {names: string[]} | null}} Texts
 */

export class Model {
  constructor() {
    /** @type {import("./wire.js").State | null} */
    this.state = null;
    this.receivedAt = -Infinity;  // of the state, ms of performance.now
    /** @type {Float32Array} */
    this.points = new Float32Array();  // of the scan, in the frame of `scanned`
    this.scanned = [0, 0, 0];  // x, y, yaw of the vehicle at the time of the scan
    /** @type {Float32Array} */
    this.radar = new Float32Array();  // lines of the returns, in the frame of `swept`
    this.swept = [0, 0, 0];  // as `scanned`
    /** @type {number[][]} */
    this.poses = [];  // stamp, x, y, yaw of the last states
    /** @type {number[][]} */
    this.plan = [];  // rows x, y, speed
    /** @type {number[][]} */
    this.obstacles = [];  // rows x, y, radius, vx, vy
    /** @type {import("./wire.js").Sharing | null} */
    this.sharing = null;
    /** @type {Texts} */
    this.texts = {world: NO_SHAPES, route: {route: NO_SHAPES, goal: NO_SHAPES, corridor: NO_SHAPES}, vehicle: null, seat: null, sharing: null, simulator: null,
      controller: null, calibration: null, calibrator: null, warnings: {warnings: []}, answer: null, replay: null, recording: null, link: null, events: null,
      choices: null, settings: null, fleet: null};
    /** @type {number[] | null} */
    this.ghost = null;  // x, y, yaw of the vehicle now, where the state comes over a link; of a replay: of the other recording's
    /** @type {number[][]} */
    this.fleet = NONE;  // rows of other vehicles: number among texts.fleet.names, x, y, yaw, speed, outline ahead, behind, to a side
    /** @type {import("./wire.js").State | null} */
    this.other = null;  // of a second recording, with stamps of the first
    /** @type {import("./wire.js").Sharing | null} */
    this.otherSharing = null;
    /** @type {Uint8Array<ArrayBuffer> | null} */
    this.image = null;  // of the camera, JPEG
    /** @type {GroundMap | null} */
    this.ground = null;  // simulated
    /** @type {GroundMap | null} */
    this.learned = null;
    /** @type {{map: GroundMap, relief: GroundMap, picture: HTMLCanvasElement} | null} */
    this.surface = null;  // of the drawn ground
    this.initial = {...this.texts};
    /** @type {Record<string, number>} */
    this.heardAt = {};  // ms of performance.now, by kind
    this.spin = [0, 0, 0, 0];  // angle of each wheel, rad
  }

  /**
   * Stores a message of the server.
   * @param {ArrayBuffer | string} data
   * @param {number} now ms of performance.now
   * @returns {string} its kind
   */
  take(data, now) {
    if (typeof data === "string") {
      const text = JSON.parse(data);
      Object.assign(this.texts, {[text.kind]: text.none ? this.initial[/** @type {keyof Texts} */ (text.kind)] : text});
      this.heardAt[text.kind] = now;
      return text.kind;
    }
    const message = unpack(data), none = !message.bytes.length;
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
    if (message.kind === RADAR) [this.radar, this.swept] = [radarLines(message, this.state), this.#poseAt(message.stamp)];
    if (message.kind === PLAN) this.plan = rows(message.values, 3);
    if (message.kind === OBSTACLES) this.obstacles = rows(message.values, 5);
    if (message.kind === FLEET) this.fleet = rows(message.values, 8);
    if (message.kind === GHOST) this.ghost = Array.from(message.values);
    if (message.kind === OTHER_STATE) {
      this.other = none ? null : readState(message);
      this.ghost = this.other && [this.other.x, this.other.y, this.other.yaw];
    }
    if (message.kind === OTHER_SHARING) this.otherSharing = none ? null : readSharing(message);
    if (message.kind === IMAGE) this.image = none ? null : message.bytes;
    if (message.kind === GROUND) this.ground = none ? null : new GroundMap(/** @type {ArrayBuffer} */ (data));
    if (message.kind === LEARNED) this.learned = none ? null : new GroundMap(/** @type {ArrayBuffer} */ (data));
    if (message.kind === SHARING) this.sharing = none ? null : readSharing(message);
    return {[SCAN]: "scan", [PLAN]: "plan", [OBSTACLES]: "obstacles", [SHARING]: "sharing values", [GHOST]: "ghost", [FLEET]: "fleet values", [RADAR]: "radar", [IMAGE]: "image", [OTHER_STATE]: "other state", [OTHER_SHARING]: "other sharing", [GROUND]: "ground map", [LEARNED]: "learned map"}[message.kind] ?? "unknown";
  }

  /** Pose of the vehicle (x, y, yaw) nearest to a time [s]: points of a scan stand where they were seen, not where the vehicle has got to. @param {number} stamp */
  #poseAt(stamp) {
    const nearer = (/** @type {number[]} */ one, /** @type {number[]} */ other) => Math.abs(other[0] - stamp) < Math.abs(one[0] - stamp) ? other : one;
    return this.poses.length ? this.poses.reduce(nearer).slice(1) : [0, 0, 0];
  }

  /** Removes outdated values of kinds that are repeated several times a second. @param {number} now ms */
  forget(now) {
    const old = (/** @type {number | string} */ kind) => now - (this.heardAt[kind] ?? -Infinity) > LASTS;
    if (old(SHARING)) [this.sharing, this.texts.sharing] = [null, null];
    if (old(SCAN)) this.points = new Float32Array();
    if (old(RADAR)) this.radar = new Float32Array();
    if (old(PLAN)) this.plan = [];
    if (old(OBSTACLES)) this.obstacles = NONE;
    if (old("controller")) this.texts.controller = null;
    if (old(GHOST)) this.ghost = null;
    if (old(FLEET)) this.fleet = NONE;
    if (old(IMAGE)) this.image = null;
  }

  /** Wheel loads relative to the static ones; NaN if the weight is unknown. */
  get loads() {
    const vehicle = this.texts.vehicle;
    if (!this.state || !vehicle || !vehicle.wheelbase) return [NaN, NaN, NaN, NaN];
    const front = 0.5 * vehicle.weight * vehicle.rear_axle / vehicle.wheelbase, rear = 0.5 * vehicle.weight * vehicle.front_axle / vehicle.wheelbase;
    return this.state.loads.map((load, i) => load / (i < 2 ? front : rear));
  }

  /** Sideslip [deg], + to the left; NaN near standstill. */
  get sideslip() {
    const {vx, vy} = this.state ?? {vx: 0, vy: NaN};
    return Math.abs(vx) > 1 ? 180 / Math.PI * Math.atan2(vy, Math.abs(vx)) : NaN;
  }

  /** Outlines that are drawn as wire frames, the ghost's and those of other vehicles: rows x, y, yaw, ahead, behind, to a side. */
  get frames() {
    const d = this.dimensions, own = this.ghost ? [[...this.ghost, d.outline_front, d.outline_rear, d.outline_half_width]] : NONE;
    return [...own, ...this.fleet.map(([, x, y, yaw, , ...outline]) => [x, y, yaw, ...outline])];
  }

  /** Height of the ground at a place [m]. @param {number} x @param {number} y */
  height(x, y) {
    return this.ground?.height(x, y) ?? 0;
  }

  /** Dimensions of the vehicle [m], or those of a car while none have come. @returns {Dimensions} */
  get dimensions() {
    return this.texts.vehicle ?? {vehicle: "", weight: 0, wheelbase: 2.8, front_axle: 1.4, rear_axle: 1.4, track_front: 1.6, track_rear: 1.6, wheel_radius: 0.35, outline_front: 2.2,
      outline_rear: 2.2, outline_half_width: 0.9, full_lock: 0.6};
  }
}
