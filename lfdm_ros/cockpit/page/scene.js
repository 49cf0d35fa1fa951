// The view in three dimensions. Axes as the vehicle's: x forward, y left, z up; metres.

import {COLOURS, VehicleGroup, solid} from "./vehicle.js";
import * as THREE from "./vendor/three.module.js";
import {rows} from "./wire.js";

/** @typedef {import("./model.js").Model} Model */

const HEIGHT = 1.5;  // of obstacles
const MAX_POINTS = 8192, TILE = 5;

/** Draws a model with WebGL; the constructor throws where there is none. */
export class Scene {
  /** @param {HTMLCanvasElement} canvas @param {number} scale resolution by that of the screen */
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
    this.vehicle = new VehicleGroup();
    this.scene.add(this.vehicle);
    this.plan = this.#band(COLOURS.plan);
    this.route = this.#band(COLOURS.route);
    this.edges = [this.#band(COLOURS.edge), this.#band(COLOURS.edge)];
    // Drawn over all else: half of them would be inside the ground.
    this.points = new THREE.Points(new THREE.BufferGeometry(),
      new THREE.PointsMaterial({color: COLOURS.scan, size: 3 * Math.max(scale, 1), sizeAttenuation: false, depthTest: false, transparent: true}));
    this.points.geometry.setAttribute("position", new THREE.BufferAttribute(new Float32Array(3 * MAX_POINTS), 3));
    this.points.frustumCulled = false;
    this.scene.add(this.points);
    this.radar = new THREE.LineSegments(new THREE.BufferGeometry(), new THREE.LineBasicMaterial({color: COLOURS.radar, depthTest: false, transparent: true}));
    this.radar.frustumCulled = false;
    this.scene.add(this.radar);
    this.groups = {world: new THREE.Group(), tracked: new THREE.Group(), goal: new THREE.Group()};
    this.scene.add(...Object.values(this.groups));
    this.frames = new THREE.Group();
    this.scene.add(this.frames);
    /** Sources from which the groups and the ground were built. @type {Record<keyof Scene["groups"] | "surface" | "relief" | "radar", unknown>} */
    this.built = {world: null, tracked: null, goal: null, surface: null, relief: null, radar: null};
    this.yaw = this.level = 0;
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

  /** A path on the ground, with a width: lines of WebGL have one pixel. @param {number} colour */
  #band(colour) {
    const band = new THREE.Mesh(new THREE.BufferGeometry(), new THREE.MeshBasicMaterial({color: colour, side: THREE.DoubleSide}));
    band.frustumCulled = false;
    this.scene.add(band);
    return band;
  }

  /** Resizes to the canvas. */
  resize() {
    const {clientWidth: width, clientHeight: height} = this.renderer.domElement;
    const size = this.renderer.getSize(new THREE.Vector2());
    if (size.x === width && size.y === height) return;
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / Math.max(height, 1);
    this.camera.updateProjectionMatrix();
  }

  /** Draws the model. @param {Model} model @param {string} view chase, driver or bird @param {number} dt s since the last picture */
  draw(model, view, dt) {
    this.resize();
    this.#rebuild(model);
    const state = model.state;
    if (state) {
      this.vehicle.show(model, state, view);
      // By whole tiles, to stay fixed on the ground.
      this.ground.position.set(TILE * Math.round(state.x / TILE), TILE * Math.round(state.y / TILE), this.level);
      this.#aim(model, state, view, dt);
    }
    this.#points(model);
    this.#returns(model);
    this.#showFrames(model);
    this.#path(model, this.plan, model.plan, 0.15, 0.4);
    this.#path(model, this.route, model.texts.route.route?.lines[0] ?? [], 0.08, 0.15);
    this.edges.forEach((band, i) => this.#path(model, band, model.texts.route.corridor?.lines[i] ?? [], 0.05, 0.1));
    this.renderer.render(this.scene, this.camera);
  }

  /** Wire frames: where the vehicle is now, while the picture is late; other vehicles. @param {Model} model */
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

  /** @param {Model} model @param {import("./wire.js").State} state @param {string} view @param {number} dt */
  #aim(model, state, view, dt) {
    const turn = Math.atan2(Math.sin(state.yaw - this.yaw), Math.cos(state.yaw - this.yaw));
    this.yaw += turn * Math.min(1, 4 * dt);
    const direction = view === "driver" ? state.yaw : this.yaw, c = Math.cos(direction), s = Math.sin(direction);
    const here = model.height(state.x, state.y);
    /** @param {number} ahead @param {number} height @returns {[number, number, number]} */
    const at = (ahead, height) => [state.x + ahead * c, state.y + ahead * s,
      height + (ahead < 0 ? Math.max(here, model.height(state.x + ahead * c, state.y + ahead * s)) : here)];
    if (view === "bird") {
      this.camera.up.set(c, s, 0);
      this.camera.position.set(...at(12, 55));
      this.camera.lookAt(...at(12, 0));
    } else {
      this.camera.up.set(0, 0, 1);
      this.camera.position.set(...(view === "driver" ? at(0.2 * model.dimensions.front_axle, 1.5) : at(-9, 4)));
      this.camera.lookAt(...(view === "driver" ? at(30, 0.6) : at(8, 0.5)));
    }
  }

  /**
   * Lays a band along rows x, y, ...
   * @param {Model} model
   * @param {THREE.Mesh} band
   * @param {number[][]} rows
   * @param {number} height over the ground
   * @param {number} width
   */
  #path(model, band, rows, height, width) {
    const positions = new Float32Array(6 * rows.length), corners = /** @type {number[]} */ ([]);
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

  /** @param {Model} model */
  #points(model) {
    const {points: flat, scanned: [x, y, yaw]} = model;
    this.points.position.set(x, y, model.height(x, y));
    this.points.rotation.z = yaw;
    const attribute = this.points.geometry.getAttribute("position"), count = Math.min(flat.length / 2, MAX_POINTS);
    for (let i = 0; i < count; i++) attribute.setXYZ(i, flat[2 * i], flat[2 * i + 1], 0.8);
    attribute.needsUpdate = true;
    this.points.geometry.setDrawRange(0, count);
  }

  /** Returns of the radar, as high as a bumper. @param {Model} model */
  #returns(model) {
    const {radar, swept: [x, y, yaw]} = model;
    this.radar.position.set(x, y, model.height(x, y));
    this.radar.rotation.z = yaw;
    if (this.built.radar === radar) return;
    this.built.radar = radar;
    // The crosses stand upright: of their lines one end is low, the other high.
    const positions = rows(radar, 2).flatMap(([along, across], i) => [along, across, i % 6 > 3 ? 0.8 : i % 2 ? 1.15 : 0.45]);
    this.radar.geometry.dispose();
    this.radar.geometry = new THREE.BufferGeometry().setAttribute("position", new THREE.Float32BufferAttribute(positions, 3));
  }

  /** @param {Model} model */
  #rebuild(model) {
    if (this.built.surface !== model.surface) this.#buildTerrain(model);
    /** @param {keyof Scene["groups"]} name @param {unknown} source @param {() => THREE.Object3D[]} make */
    const fill = (name, source, make) => {
      if (this.built[name] === source) return;
      this.built[name] = source;
      for (const child of /** @type {THREE.Mesh<THREE.BufferGeometry, THREE.Material>[]} */ ([...this.groups[name].children])) {
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

  /** Builds the surface of the ground, with its picture on it. @param {Model} model */
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

  /** @param {number} x @param {number} y @param {number} radius @param {number} colour @param {number} opacity @param {number} height */
  #cylinder(x, y, radius, colour, opacity, height = HEIGHT) {
    const mesh = solid(new THREE.CylinderGeometry(radius, radius, height, 24), colour);
    [mesh.material.transparent, mesh.material.opacity] = [opacity < 1, opacity];
    mesh.rotation.x = Math.PI / 2;
    mesh.position.set(x, y, height / 2);
    return mesh;
  }

  /** @param {number[][]} points of the outline */
  #wall(points) {
    const [[x0, y0]] = points, shape = new THREE.Shape(points.map(([x, y]) => new THREE.Vector2(x - x0, y - y0)));
    const mesh = solid(new THREE.ExtrudeGeometry(shape, {depth: HEIGHT, bevelEnabled: false}), COLOURS.world);
    mesh.position.set(x0, y0, 0);
    return mesh;
  }

  /** @param {number} x @param {number} y @param {number} vx @param {number} vy */
  #arrow(x, y, vx, vy) {
    const geometry = new THREE.BufferGeometry().setFromPoints([new THREE.Vector3(0, 0, HEIGHT), new THREE.Vector3(vx, vy, HEIGHT)]);
    const line = new THREE.Line(geometry, new THREE.LineBasicMaterial({color: COLOURS.tracked}));
    line.position.set(x, y, 0);
    return line;
  }
}
