// The vehicle in three dimensions: body, wheels, and a bar of the load at each wheel.

import * as THREE from "./vendor/three.module.js";

export const COLOURS = {plan: 0x56b4e9, route: 0x3b6fb5, edge: 0xc8ccd0, tracked: 0xd55e00, world: 0x8a8f96, body: 0xb9c2cc, scan: 0xf0e442, radar: 0xcc79a7, goal: 0x009e73, wheel: 0x222529};

/** Returns a mesh that light falls on. @param {THREE.BufferGeometry} geometry @param {number} colour */
export const solid = (geometry, colour) => new THREE.Mesh(geometry, new THREE.MeshLambertMaterial({color: colour}));

/** Roll and pitch of the ground under the vehicle [rad]. @param {import("./model.js").Model} model @param {import("./wire.js").State} state */
function tilt(model, {x, y, yaw}) {
  const [along, across] = model.ground?.slope(x, y) ?? [0, 0], c = Math.cos(yaw), s = Math.sin(yaw), ahead = along * c + across * s;
  return [Math.atan((across * c - along * s) / Math.hypot(1, ahead)), -Math.atan(ahead)];
}

/** Adds a box on the middle plane. @param {THREE.Group} group @param {[number, number, number]} size @param {number} x @param {number} z @param {number} colour */
function addBox(group, size, x, z, colour) {
  const mesh = solid(new THREE.BoxGeometry(...size), colour);
  mesh.position.set(x, 0, z);
  group.add(mesh);
}

/** The vehicle as a group of the scene, in the dimensions of the vehicle's description. */
export class VehicleGroup extends THREE.Group {
  /** @type {string | null} */
  #built = null;  // name of the vehicle
  #body = new THREE.Group();
  /** @type {{mount: THREE.Group, tyre: THREE.Group, bar: THREE.Mesh<THREE.BoxGeometry, THREE.MeshBasicMaterial>}[]} */
  #wheels = [];

  /**
   * Places the vehicle according to a state.
   * @param {import("./model.js").Model} model
   * @param {import("./wire.js").State} state
   * @param {string} view
   */
  show(model, state, view) {
    if (this.#built !== model.dimensions.vehicle) this.#build(model.dimensions);
    this.position.set(state.x, state.y, model.height(state.x, state.y));
    const [roll, pitch] = tilt(model, state);
    this.rotation.set(roll, pitch, state.yaw, "ZYX");
    // The roll of models without pitch is relative to the ground.
    const pitches = Number.isFinite(state.pitch);
    this.#body.rotation.set((state.roll || 0) - (pitches ? roll : 0), pitches ? state.pitch - pitch : 0, 0);
    this.#body.visible = view !== "driver";
    this.#wheels.forEach((wheel, i) => {
      wheel.mount.rotation.z = i < 2 ? state.roadWheelAngle || 0 : 0;
      wheel.tyre.rotation.y = model.spin[i];
      const load = model.loads[i];
      wheel.bar.visible = Number.isFinite(load);
      wheel.bar.scale.z = Math.max(Math.min(load, 3), 0.02);
      wheel.bar.material.color.set(load < 0.05 ? COLOURS.tracked : COLOURS.goal);
    });
  }

  /** @param {import("./model.js").Dimensions} d */
  #build(d) {
    this.clear();
    this.#built = d.vehicle;
    const length = d.outline_front + d.outline_rear, width = 2 * d.outline_half_width, middle = 0.5 * (d.outline_front - d.outline_rear);
    const r = d.wheel_radius;
    this.#body = new THREE.Group();
    addBox(this.#body, [length, width, 0.65], middle, r + 0.35, COLOURS.body);
    addBox(this.#body, [0.5 * length, 0.9 * width, 0.55], middle - 0.08 * length, r + 0.95, 0x38424c);
    addBox(this.#body, [0.12, 0.8 * width, 0.15], middle + length / 2, r + 0.45, 0xffffff);
    this.#wheels = [[d.front_axle, d.track_front / 2], [d.front_axle, -d.track_front / 2], [-d.rear_axle, d.track_rear / 2],
      [-d.rear_axle, -d.track_rear / 2]].map(([x, y]) => {
      const mount = new THREE.Group(), tyre = new THREE.Group();
      mount.position.set(x, y, r);
      tyre.add(solid(new THREE.CylinderGeometry(r, r, 0.28, 20), COLOURS.wheel), solid(new THREE.BoxGeometry(1.7 * r, 0.3, 0.08), 0xd0d4d8));
      const bar = new THREE.Mesh(new THREE.BoxGeometry(0.12, 0.12, 1), new THREE.MeshBasicMaterial({color: COLOURS.goal}));
      bar.geometry.translate(0, 0, 0.5);
      bar.position.set(x, y + Math.sign(y) * 0.35, 0.1);
      mount.add(tyre);
      this.add(mount, bar);
      return {mount, tyre, bar};
    });
    this.add(this.#body);
  }
}
