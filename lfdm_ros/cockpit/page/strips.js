// Strips of the last 20 s, by uPlot, with fixed windows and scales.

import uPlot from "./vendor/uPlot.esm.js";

/** Times of a chart's samples, then its curves. @typedef {[number[], ...(number | null)[][]]} Data */

const WINDOW = 20, PERIOD = 66;  // s; ms between two drawings
const MAX_SAMPLES = 2500;
const OPERATOR = "#e69f00", AUTONOMY = "#56b4e9", SENT = "#ffffff", ALARM = "#d55e00";

/** @typedef {[string, string, number[]]} Line label, colour, dashes */
const GHOST = [2, 5];
/** ghosts: the same of a second recording. @type {{title: string, range: [number, number] | null, series: Line[], ghosts: Line[]}[]} */
const CHARTS = [
  {title: "speed", range: null, series: [["speed", SENT, []]], ghosts: [["ghost", SENT, GHOST]]},
  {title: "steering, + left", range: [-1, 1], series: [["operator", OPERATOR, [6, 4]], ["autonomy", AUTONOMY, [2, 3]], ["sent", SENT, []]],
    ghosts: [["sent, ghost", SENT, GHOST]]},
  {title: "k (0 operator, 1 autonomy), threat", range: [0, 1], series: [["k", AUTONOMY, []], ["threat", ALARM, [6, 4]]],
    ghosts: [["k, ghost", AUTONOMY, GHOST], ["threat, ghost", ALARM, GHOST]]},
];
const BACK = 0.5;  // s by which a sample may be earlier than the last one; else the clock was set back

/** @param {Line} drawn */
const line = ([label, stroke, dash], more = {}) => ({label, stroke, dash, width: 2, points: {show: false}, ...more});

export class Strips {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.drawnAt = 0;
    this.charts = CHARTS.map(({title, range, series, ghosts}) => {
      /** @type {Data} */
      const data = [[], ...series.map(() => [])];
      const chart = new uPlot({
        title, width: place.clientWidth || 330, height: 120, cursor: {show: false}, legend: {show: series.length > 1, live: false},
        scales: {x: {time: false, range: (_, __, max) => [(max ?? 0) - WINDOW, max ?? 0]}, y: range ? {range: () => range} : {range: (_, min, max) => [Math.min(0, min ?? 0), Math.max(10, 1.1 * (max ?? 0))]}},
        axes: [{stroke: "#a7b0ba", grid: {stroke: "#2f363d"}, size: 28}, {stroke: "#a7b0ba", grid: {stroke: "#2f363d"}, size: 40}],
        series: [{}, ...series.map(one => line(one))],
      }, data, place);
      return {chart, data, ghosts, own: series.length};
    });
  }

  /**
   * Adds a sample to a chart.
   * @param {number} index of the chart
   * @param {number} time s
   * @param {number[]} values
   */
  add(index, time, values) {
    this.#insert(this.charts[index].data, time, 1, values);
  }

  /**
   * Adds a sample of a second recording, by the clock of the first.
   * @param {number} index of the chart
   * @param {number} time s
   * @param {number[]} values
   */
  addGhost(index, time, values) {
    const {chart, data, ghosts, own} = this.charts[index];
    if (data.length === 1 + own) {
      for (const series of chart.series.slice(1)) series.spanGaps = true;  // samples of the two alternate
      if (own === 1) chart.root.querySelector(".u-title")?.append(", dotted: ghost");  // it has no legend
      for (const ghost of ghosts) {
        data.push(data[0].map(() => null));
        chart.addSeries(line(ghost, {spanGaps: true}));
      }
    }
    this.#insert(data, time, 1 + own, values);
  }

  /** Puts values into their columns at a time, in the order of time. @param {Data} data @param {number} time @param {number} column @param {number[]} values */
  #insert(data, time, column, values) {
    const [times, ...curves] = data;
    if (times.length && time < times[times.length - 1] - BACK) data.forEach(one => one.splice(0));
    let at = times.length;
    while (at && times[at - 1] >= time) at -= 1;
    if (times[at] !== time) {
      times.splice(at, 0, time);
      for (const one of curves) one.splice(at, 0, null);
    }
    values.forEach((value, i) => { data[column + i][at] = Number.isFinite(value) ? value : null; });
    if (times.length > MAX_SAMPLES) data.forEach(one => one.splice(0, one.length - MAX_SAMPLES + 500));
  }

  /** @param {number} now ms */
  draw(now) {
    if (now - this.drawnAt < PERIOD) return;
    this.drawnAt = now;
    for (const {chart, data} of this.charts) chart.setData(data);
  }
}
