// A vehicle in WebAssembly. SI units; x forward, y to the left; steering is positive to the left.
//
//   const vehicle = await Vehicle.load();              // or load(bytes of vehicle.wasm)
//   vehicle.start({vx: 10});                           // rolls freely; x, y, yaw, vx
//   vehicle.advance({steering: 0.1, throttle: 0.3}, 10);  // 10 steps of 1 ms, the inputs linear to these
//   vehicle.state.vx; vehicle.outputs().ay;
//   vehicle.parameters.friction_scale = 0.3;           // at once

const ABOUT = {};
const PLACE = ["x", "y", "yaw", "vx"];

// Numbers of the vehicle's memory by name; `changed` is called after one is set.
function record(names, numbers, changed = () => {}) {
  const fields = names.map((name, i) => [name, {
    enumerable: true,
    get: () => numbers[i],
    set: (value) => { numbers[i] = value; changed(); },
  }]);
  return Object.freeze(Object.defineProperties({}, Object.fromEntries(fields)));
}

export class Vehicle {
  static async load(source = fetch(new URL("vehicle.wasm", import.meta.url))) {
    const given = await source;
    const bytes = given instanceof Response ? await given.arrayBuffer() : given;
    return new Vehicle(await WebAssembly.instantiate(bytes, {env: Math}));
  }

  constructor({instance}) {
    this.about = ABOUT;
    const exports = this._exports = instance.exports;
    const names = Object.fromEntries(["states", "inputs", "outputs", "parameters"].map((kind) => [kind, Object.keys(ABOUT[kind])]));
    const sizes = {x: names.states.length, u0: names.inputs.length, u1: names.inputs.length, p: names.parameters.length,
                   place: PLACE.length, q: ABOUT.room, dx: names.states.length, y: names.outputs.length};
    // All arrays lie one after the other behind what the module has for itself; memory never grows again.
    let end = exports.__heap_base.value + 15 & ~15;
    const places = Object.entries(sizes).map(([name, size]) => [name, (end += 8 * size) - 8 * size, size]);
    const missing = end - exports.memory.buffer.byteLength;
    if (missing > 0) exports.memory.grow(Math.ceil(missing / 65536));
    this._at = Object.fromEntries(places.map(([name, place]) => [name, place]));
    this._numbers = Object.fromEntries(places.map(([name, place, size]) => [name, new Float64Array(exports.memory.buffer, place, size)]));
    this._numbers.p.set(new Float64Array(exports.memory.buffer, exports.vehicle_parameters.value, sizes.p));
    this.state = record(names.states, this._numbers.x);
    this._outputs = record(names.outputs, this._numbers.y);
    this.parameters = record(names.parameters, this._numbers.p, () => this._prepare());
    this._inputs = names.inputs;
    this._prepare();
    this.start({});
  }

  // Puts the vehicle to a place; the inputs are 0.
  start(place) {
    this._numbers.place.set(PLACE.map((name) => place[name] ?? 0));
    this._exports.vehicle_start(this._at.p, this._at.place, this._at.x);
    this._numbers.u1.fill(0);
  }

  // Drives `steps` steps of `h` seconds, the inputs linear from those before to these; what is not given stays. Returns whether all is finite.
  advance(inputs, steps, h = 0.001) {
    const {u0, u1} = this._numbers;
    u0.set(u1);
    for (const [name, value] of Object.entries(inputs)) {
      const i = this._inputs.indexOf(name);
      if (i < 0) throw new RangeError(`no input ${name}; there are: ${this._inputs.join(", ")}`);
      u1[i] = value;
    }
    return this._exports.vehicle_advance(this._at.x, this._at.q, this._at.u0, this._at.u1, steps, h) === 1;
  }

  // The outputs now, of a run with steps of `h` seconds. The record is the same at each call.
  outputs(h = 0.001) {
    const at = this._at;
    this._exports.vehicle_evaluate(at.x, at.u1, at.p, h, at.dx, at.y);
    return this._outputs;
  }

  _prepare() {
    this._exports.vehicle_prepare(this._at.p, this._at.q);
  }
}
