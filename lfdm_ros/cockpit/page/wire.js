// Reads messages of the server; lfdm_ros/cockpit/wire.py and cockpit/page_messages.py write them.

export const STATE = 1, SCAN = 2, PLAN = 3, SHARING = 4, OBSTACLES = 5, GHOST = 6, IMAGE = 7, OTHER_STATE = 8, OTHER_SHARING = 9, FLEET = 10, RADAR = 11, GROUND = 20, LEARNED = 21;

const CROSS = 0.35;  // m, half of the side of the mark of a radar's return
const HEADER = 16;  // bytes: kind, 3 zeros, number (uint32), stamp (float64)

/** @typedef {{kind: number, number: number, stamp: number, values: Float32Array, bytes: Uint8Array<ArrayBuffer>}} Message bytes: those of the values */

/** Splits a binary message. @param {ArrayBuffer} buffer @returns {Message} */
export function unpack(buffer) {
  const view = new DataView(buffer);
  return {kind: view.getUint8(0), number: view.getUint32(4, true), stamp: view.getFloat64(8, true),
    values: new Float32Array(buffer, HEADER, (buffer.byteLength - HEADER) >> 2), bytes: new Uint8Array(buffer, HEADER)};
}

/**
 * @typedef {{stamp: number, number: number, x: number, y: number, roll: number, pitch: number, yaw: number, vx: number, vy: number, ax: number,
 *   ay: number, yawRate: number, roadWheelAngle: number, gear: number, engineSpeed: number, wheelSpeeds: number[], loads: number[]}} State
 */

/**
 * Reads a state in SI units, axes as in ISO 8855; wheels front left, front right, rear left, rear right.
 * @param {Message} message
 * @returns {State}
 */
export function readState({stamp, number, values}) {
  const [x, y, roll, pitch, yaw, vx, vy, ax, ay, yawRate, roadWheelAngle, gear, engineSpeed, ...wheels] = values;
  return {stamp, number, x, y, roll, pitch, yaw, vx, vy, ax, ay, yawRate, roadWheelAngle, gear, engineSpeed,
    wheelSpeeds: wheels.slice(0, 4), loads: wheels.slice(4, 8)};
}

/**
 * Returns the points (x, y) of a scan in the vehicle's frame [m], flat; returns beyond the range are left out.
 * @param {Message} message
 * @returns {Float32Array}
 */
export function scanPoints({values}) {
  const [x, y, yaw, first, increment, least, most] = values;
  const points = [];
  for (let i = 7; i < values.length; i++) {
    const range = values[i], angle = yaw + first + (i - 7) * increment;
    if (range >= least && range <= most && range < Infinity) points.push(x + range * Math.cos(angle), y + range * Math.sin(angle));
  }
  return new Float32Array(points);
}

/**
 * Returns lines (x, y to x, y) in the vehicle's frame [m], flat: a cross for each return of a radar, and from it the way of the next second
 * along the beam, over the ground.
 * @param {Message} message
 * @param {State | null} state
 * @returns {Float32Array}
 */
export function radarLines({values}, state) {
  const [px, py] = values, {vx, vy, yawRate} = state ?? {vx: 0, vy: 0, yawRate: 0};
  return Float32Array.from(rows(values.subarray(2), 3).flatMap(([x, y, doppler]) => {
    const range = Math.hypot(x - px, y - py) || 1, c = (x - px) / range, s = (y - py) / range;
    const speed = doppler + c * (vx - yawRate * py || 0) + s * (vy + yawRate * px || 0);
    return [x - CROSS, y - CROSS, x + CROSS, y + CROSS, x - CROSS, y + CROSS, x + CROSS, y - CROSS, x, y, x + speed * c, y + speed * s];
  }));
}

/**
 * @typedef {{stamp: number, k: number, kWanted: number, threat: number, operator: number[], autonomy: number[], applied: number[],
 *   operatorAge: number, autonomyAge: number}} Sharing commands: steering, throttle, brake
 */

/** Reads commands and k of shared control. @param {Message} message @returns {Sharing} */
export function readSharing({stamp, values}) {
  const v = Array.from(values);
  return {stamp, k: v[0], kWanted: v[1], threat: v[2], operator: v.slice(3, 6), autonomy: v.slice(6, 9), applied: v.slice(9, 12),
    operatorAge: v[12], autonomyAge: v[13]};
}

/** Splits values into rows. @param {Float32Array} values @param {number} columns @returns {number[][]} */
export function rows(values, columns) {
  return Array.from({length: Math.floor(values.length / columns)}, (_, i) => Array.from(values.subarray(i * columns, (i + 1) * columns)));
}
