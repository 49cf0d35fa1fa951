// The view in three dimensions. Axes as the vehicle's: x forward, y left, z up; metres.

import * as THREE from "./vendor/three.module.js";

const COLOURS = {plan: 0x56b4e9, route: 0x3b6fb5, edge: 0xc8ccd0, tracked: 0xd55e00, world: 0x8a8f96, body: 0xb9c2cc, scan: 0xf0e442, goal: 0x009e73, wheel: 0x222529};
const HEIGHT = 1.5;  // of obstacles
const MAX_POINTS = 8192, TILE = 5;

/** Draws a model with WebGL; the constructor throws where there is none. */
export class Scene {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {number} scale resolution by that of the screen
   */
  constructor(canvas, scale) {
    this.renderer = new THREE.WebGLRenderer({canvas, antialias: scale >= 1});
    this.renderer.setPixelRatio(Math.min(devicePixelRatio, 2) * scale);
    this.dead = false;
    canvas.addEventListener("webglcontextlost", event => { event.preventDefault(); this.dead = true; });
    canvas.addEventListener("webglcontextrestored", () => { this.dead = false; });
    this.scene = new THREE.Scene();
    this.scene.background = new THREE.Color(0x22303c);
    this.scene.fog = new THREE.Fog(0x22303c, 80, 220);
    this.camera = new THREE.PerspectiveCamera(55, 1, 0.3, 400);
    this.camera.up.set(0, 0, 1);
    this.scene.add(new THREE.HemisphereLight(0xffffff, 0x445566, 2.2));
    const sun = new THREE.DirectionalLight(0xffffff, 1.6);
    sun.position.set(-30, 40, 60);
    this.scene.add(sun);
    this.ground = new THREE.Mesh(new THREE.PlaneGeometry(800, 800), new THREE.MeshBasicMaterial({map: this.#tiles()}));
    this.scene.add(this.ground);
    this.terrain = new THREE.Mesh(new THREE.BufferGeometry(), new THREE.MeshBasicMaterial());
    this.terrain.visible = false;
    this.scene.add(this.terrain);
    this.vehicle = new THREE.Group();
    this.scene.add(this.vehicle);
    this.plan = this.#band(COLOURS.plan);
    this.route = this.#band(COLOURS.route);
    this.edges = [this.#band(COLOURS.edge), this.#band(COLOURS.edge)];
    // Over all else: half of them would be within what they lie on.
    this.points = new THREE.Points(new THREE.BufferGeometry(),
      new THREE.PointsMaterial({color: COLOURS.scan, size: 3 * Math.max(scale, 1), sizeAttenuation: false, depthTest: false, transparent: true}));
    this.points.geometry.setAttribute("position", new THREE.BufferAttribute(new Float32Array(3 * MAX_POINTS), 3));
    this.points.frustumCulled = false;
    this.scene.add(this.points);
    this.groups = {world: new THREE.Group(), tracked: new THREE.Group(), goal: new THREE.Group()};
    this.scene.add(...Object.values(this.groups));
    this.frames = new THREE.Group();
    this.scene.add(this.frames);
    this.built = {dimensions: null, world: null, tracked: null, goal: null, surface: null, relief: null};
    this.yaw = this.level = 0;
    this.body = new THREE.Group();
    /** @type {{mount: THREE.Group, tyre: THREE.Group, bar: THREE.Mesh<THREE.BoxGeometry, THREE.MeshBasicMaterial>}[]} */
    this.wheels = [];
  }

  /** The ground's texture: tiles of TILE metres, as lines are clipped wrongly by some renderers without a GPU. */
  #tiles() {
    const canvas = document.createElement("canvas"), size = canvas.width = canvas.height = 128;
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    context.fillStyle = "#2a3138";
    context.fillRect(0, 0, size, size);
    context.strokeStyle = "#4d5a65";
    context.lineWidth = 3;
    context.strokeRect(0, 0, size, size);
    const texture = new THREE.CanvasTexture(canvas);
    texture.wrapS = texture.wrapT = THREE.RepeatWrapping;
    texture.repeat.set(800 / TILE, 800 / TILE);
    texture.anisotropy = 8;
    texture.colorSpace = THREE.SRGBColorSpace;
    return texture;
  }

  /** A path on the ground, with a width: lines of WebGL have one pixel. */
  #band(colour) {
    const band = new THREE.Mesh(new THREE.BufferGeometry(), new THREE.MeshBasicMaterial({color: colour, side: THREE.DoubleSide}));
    band.frustumCulled = false;
    this.scene.add(band);
    return band;
  }

  /** Resizes to the canvas' place on the page. */
  resize() {
    const {clientWidth: width, clientHeight: height} = this.renderer.domElement;
    const size = this.renderer.getSize(new THREE.Vector2());
    if (size.x === width && size.y === height) return;
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / Math.max(height, 1);
    this.camera.updateProjectionMatrix();
  }

  /**
   * Draws the model.
   * @param {import("./model.js").Model} model
   * @param {string} view chase, driver or bird
   * @param {number} dt s since the last picture
   */
  draw(model, view, dt) {
    this.resize();
    this.#rebuild(model);
    const state = model.state;
    if (state) {
      const d = model.dimensions;
      this.vehicle.position.set(state.x, state.y, model.height(state.x, state.y));
      const [roll, pitch] = this.#tilt(model, state);
      this.vehicle.rotation.set(roll, pitch, state.yaw, "ZYX");
      // The roll of models that do not pitch is against the ground that they stand on.
      const pitches = Number.isFinite(state.pitch);
      this.body.rotation.set((state.roll || 0) - (pitches ? roll : 0), pitches ? state.pitch - pitch : 0, 0);
      this.body.visible = view !== "driver";
      this.wheels.forEach((wheel, i) => {
        wheel.mount.rotation.z = i < 2 ? state.roadWheelAngle || 0 : 0;
        wheel.tyre.rotation.y = model.spin[i];
        const load = model.loads[i];
        wheel.bar.visible = Number.isFinite(load);
        wheel.bar.scale.z = Math.max(Math.min(load, 3), 0.02);
        wheel.bar.material.color.set(load < 0.05 ? COLOURS.tracked : COLOURS.goal);
      });
      // By whole tiles: they stay where they are on the ground.
      this.ground.position.set(TILE * Math.round(state.x / TILE), TILE * Math.round(state.y / TILE), this.level);
      this.#aim(model, state, view, d, dt);
    }
    this.#points(model);
    this.#showFrames(model);
    this.#path(model, this.plan, model.plan, 0.15, 0.4);
    this.#path(model, this.route, model.texts.route.route?.lines[0] ?? [], 0.08, 0.15);
    this.edges.forEach((band, i) => this.#path(model, band, model.texts.route.corridor?.lines[i] ?? [], 0.05, 0.1));
    this.renderer.render(this.scene, this.camera);
  }

  /** Wire frames: where the vehicle is now, while the picture is late; other vehicles. */
  #showFrames(model) {
    const {frames} = model, boxes = this.frames.children;
    while (boxes.length < frames.length) {
      this.frames.add(new THREE.Mesh(new THREE.BoxGeometry(1, 1, 1), new THREE.MeshBasicMaterial({color: 0xffffff, wireframe: true})));
    }
    boxes.forEach((box, i) => { box.visible = i < frames.length; });
    frames.forEach(([x, y, yaw, ahead, behind, half], i) => {
      const middle = 0.5 * (ahead - behind);
      boxes[i].scale.set(ahead + behind, 2 * half, HEIGHT);
      boxes[i].position.set(x + middle * Math.cos(yaw), y + middle * Math.sin(yaw), model.height(x, y) + 0.5 * HEIGHT + 0.2);
      boxes[i].rotation.z = yaw;
    });
  }

  /** Roll and pitch of the ground under the vehicle [rad]. */
  #tilt(model, {x, y, yaw}) {
    const [along, across] = model.ground?.slope(x, y) ?? [0, 0], c = Math.cos(yaw), s = Math.sin(yaw), ahead = along * c + across * s;
    return [Math.atan((across * c - along * s) / Math.hypot(1, ahead)), -Math.atan(ahead)];
  }

  #aim(model, state, view, d, dt) {
    const turn = Math.atan2(Math.sin(state.yaw - this.yaw), Math.cos(state.yaw - this.yaw));
    this.yaw += turn * Math.min(1, 4 * dt);
    const direction = view === "driver" ? state.yaw : this.yaw, c = Math.cos(direction), s = Math.sin(direction);
    const here = model.height(state.x, state.y);
    /** @returns {[number, number, number]} */
    const at = (ahead, height) => [state.x + ahead * c, state.y + ahead * s,
      height + (ahead < 0 ? Math.max(here, model.height(state.x + ahead * c, state.y + ahead * s)) : here)];
    if (view === "bird") {
      this.camera.up.set(c, s, 0);
      this.camera.position.set(...at(12, 55));
      this.camera.lookAt(...at(12, 0));
    } else {
      this.camera.up.set(0, 0, 1);
      this.camera.position.set(...(view === "driver" ? at(0.2 * d.front_axle, 1.5) : at(-9, 4)));
      this.camera.lookAt(...(view === "driver" ? at(30, 0.6) : at(8, 0.5)));
    }
  }

  #path(model, band, rows, height, width) {
    const positions = new Float32Array(6 * rows.length), corners = [];
    rows.forEach(([x, y], i) => {
      const [x0, y0] = rows[Math.max(i - 1, 0)], [x1, y1] = rows[Math.min(i + 1, rows.length - 1)];
      const half = 0.5 * width / (Math.hypot(x1 - x0, y1 - y0) || 1), z = model.height(x, y) + height;
      positions.set([x - half * (y1 - y0), y + half * (x1 - x0), z, x + half * (y1 - y0), y - half * (x1 - x0), z], 6 * i);
      if (i) corners.push(2 * i - 2, 2 * i - 1, 2 * i, 2 * i, 2 * i - 1, 2 * i + 1);
    });
    band.geometry.dispose();
    band.geometry = new THREE.BufferGeometry();
    band.geometry.setAttribute("position", new THREE.BufferAttribute(positions, 3));
    band.geometry.setIndex(corners);
  }

  #points(model) {
    const {points: flat, scanned: [x, y, yaw]} = model;
    this.points.position.set(x, y, model.height(x, y));
    this.points.rotation.z = yaw;
    const attribute = this.points.geometry.getAttribute("position"), count = Math.min(flat.length / 2, MAX_POINTS);
    for (let i = 0; i < count; i++) attribute.setXYZ(i, flat[2 * i], flat[2 * i + 1], 0.8);
    attribute.needsUpdate = true;
    this.points.geometry.setDrawRange(0, count);
  }

  #rebuild(model) {
    if (this.built.dimensions !== model.dimensions.vehicle || !this.wheels.length) this.#buildVehicle(model.dimensions);
    if (this.built.surface !== model.surface) this.#buildTerrain(model);
    const fill = (name, source, make) => {
      if (this.built[name] === source) return;
      this.built[name] = source;
      for (const child of [...this.groups[name].children]) {
        this.groups[name].remove(child);
        child.geometry.dispose();
        child.material.dispose();
      }
      for (const child of make()) {
        child.position.z += model.height(child.position.x, child.position.y);
        this.groups[name].add(child);
      }
    };
    fill("world", model.texts.world, () => [...model.texts.world.discs.map(([x, y, r]) => this.#cylinder(x, y, r, COLOURS.world, 1)),
      ...model.texts.world.lines.filter(points => points.length > 2).map(points => this.#wall(points))]);
    fill("tracked", model.obstacles, () => model.obstacles.flatMap(([x, y, r, vx, vy]) => [
      this.#cylinder(x, y, r, COLOURS.tracked, 0.35), ...(vx || vy ? [this.#arrow(x, y, vx, vy)] : [])]));
    fill("goal", model.texts.route, () => (model.texts.route.goal?.discs ?? []).map(([x, y, r]) => this.#cylinder(x, y, r, COLOURS.goal, 0.3, 0.1)));
  }

  /** Builds the surface of the ground, with its picture on it. */
  #buildTerrain({surface, ground}) {
    this.built.surface = surface;
    if (this.built.relief !== ground) Object.assign(this.built, {relief: ground, world: null, goal: null});  // they stand on it
    this.terrain.visible = Boolean(surface);
    const relief = surface?.relief ?? null;
    this.level = relief ? relief.heights.reduce((least, height) => height < least ? height : least, 0) - 0.05 : 0;
    if (!surface || !relief) return;
    const {map, picture} = surface, {nx, ny} = relief;
    this.terrain.geometry.dispose();
    const geometry = this.terrain.geometry = new THREE.PlaneGeometry(1, 1, nx - 1, ny - 1), {position, uv} = geometry.attributes;
    for (let k = 0; k < nx * ny; k++) {
      const i = k % nx, j = ny - 1 - Math.floor(k / nx), x = relief.x + i * relief.spacing, y = relief.y + j * relief.spacing;  // its rows fall
      position.setXYZ(k, x, y, relief.heights[j * nx + i] || 0);
      uv.setXY(k, ((x - map.x) / map.spacing + 0.5) / map.nx, ((y - map.y) / map.spacing + 0.5) / map.ny);
    }
    geometry.computeBoundingSphere();
    this.terrain.material.map?.dispose();
    const texture = new THREE.CanvasTexture(picture);
    texture.flipY = false;
    texture.magFilter = THREE.NearestFilter;
    texture.colorSpace = THREE.SRGBColorSpace;
    texture.anisotropy = 8;
    this.terrain.material.map = texture;
    this.terrain.material.needsUpdate = true;
  }

  #cylinder(x, y, radius, colour, opacity, height = HEIGHT) {
    const mesh = new THREE.Mesh(new THREE.CylinderGeometry(radius, radius, height, 24),
      new THREE.MeshLambertMaterial({color: colour, transparent: opacity < 1, opacity}));
    mesh.rotation.x = Math.PI / 2;
    mesh.position.set(x, y, height / 2);
    return mesh;
  }

  #wall(points) {
    const [[x0, y0]] = points, shape = new THREE.Shape(points.map(([x, y]) => new THREE.Vector2(x - x0, y - y0)));
    const mesh = new THREE.Mesh(new THREE.ExtrudeGeometry(shape, {depth: HEIGHT, bevelEnabled: false}), new THREE.MeshLambertMaterial({color: COLOURS.world}));
    mesh.position.set(x0, y0, 0);
    return mesh;
  }

  #arrow(x, y, vx, vy) {
    const geometry = new THREE.BufferGeometry().setFromPoints([new THREE.Vector3(0, 0, HEIGHT), new THREE.Vector3(vx, vy, HEIGHT)]);
    const line = new THREE.Line(geometry, new THREE.LineBasicMaterial({color: COLOURS.tracked}));
    line.position.set(x, y, 0);
    return line;
  }

  #buildVehicle(d) {
    this.vehicle.clear();
    this.built.dimensions = d.vehicle;
    const length = d.outline_front + d.outline_rear, width = 2 * d.outline_half_width, middle = 0.5 * (d.outline_front - d.outline_rear);
    const box = (l, w, h, x, z, colour) => {
      const mesh = new THREE.Mesh(new THREE.BoxGeometry(l, w, h), new THREE.MeshLambertMaterial({color: colour}));
      mesh.position.set(x, 0, z);
      return mesh;
    };
    const r = d.wheel_radius;
    this.body = new THREE.Group();
    this.body.add(box(length, width, 0.65, middle, r + 0.35, COLOURS.body), box(0.5 * length, 0.9 * width, 0.55, middle - 0.08 * length, r + 0.95, 0x38424c),
      box(0.12, 0.8 * width, 0.15, middle + length / 2, r + 0.45, 0xffffff));
    this.wheels = [[d.front_axle, d.track_front / 2], [d.front_axle, -d.track_front / 2], [-d.rear_axle, d.track_rear / 2],
      [-d.rear_axle, -d.track_rear / 2]].map(([x, y]) => {
      const mount = new THREE.Group(), tyre = new THREE.Group();
      mount.position.set(x, y, r);
      tyre.add(new THREE.Mesh(new THREE.CylinderGeometry(r, r, 0.28, 20), new THREE.MeshLambertMaterial({color: COLOURS.wheel})), this.#spoke(r));
      const bar = new THREE.Mesh(new THREE.BoxGeometry(0.12, 0.12, 1), new THREE.MeshBasicMaterial({color: COLOURS.goal}));
      bar.geometry.translate(0, 0, 0.5);
      bar.position.set(x, y + Math.sign(y) * 0.35, 0.1);
      mount.add(tyre);
      this.vehicle.add(mount, bar);
      return {mount, tyre, bar};
    });
    this.vehicle.add(this.body);
  }

  #spoke(r) {
    return new THREE.Mesh(new THREE.BoxGeometry(1.7 * r, 0.3, 0.08), new THREE.MeshLambertMaterial({color: 0xd0d4d8}));
  }
}
