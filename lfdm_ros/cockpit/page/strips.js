// Strips of the last 20 s, by uPlot, with fixed windows and scales.

import uPlot from "./vendor/uPlot.esm.js";

const WINDOW = 20, PERIOD = 66;  // s; ms between two drawings
const MAX_SAMPLES = 2500;
const OPERATOR = "#e69f00", AUTONOMY = "#56b4e9", SENT = "#ffffff", ALARM = "#d55e00";

const CHARTS = [
  {title: "speed", range: null, series: [["speed", SENT, []]]},
  {title: "steering, + left", range: [-1, 1], series: [["operator", OPERATOR, [6, 4]], ["autonomy", AUTONOMY, [2, 3]], ["sent", SENT, []]]},
  {title: "k (0 operator, 1 autonomy), threat", range: [0, 1], series: [["k", AUTONOMY, []], ["threat", ALARM, [6, 4]]]},
];

export class Strips {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.drawnAt = 0;
    this.charts = CHARTS.map(({title, range, series}) => {
      const data = [[], ...series.map(() => [])];
      const chart = new uPlot({
        title, width: place.clientWidth || 330, height: 120, cursor: {show: false}, legend: {show: series.length > 1, live: false},
        scales: {x: {time: false, range: (_, __, max) => [(max ?? 0) - WINDOW, max ?? 0]}, y: range ? {range: () => range} : {range: (_, min, max) => [Math.min(0, min ?? 0), Math.max(10, 1.1 * (max ?? 0))]}},
        axes: [{stroke: "#a7b0ba", grid: {stroke: "#2f363d"}, size: 28}, {stroke: "#a7b0ba", grid: {stroke: "#2f363d"}, size: 40}],
        series: [{}, ...series.map(([label, stroke, dash]) => ({label, stroke, dash, width: 2, points: {show: false}}))],
      }, data, place);
      return {chart, data};
    });
  }

  /**
   * Adds a sample to a chart.
   * @param {number} index of the chart
   * @param {number} time s
   * @param {number[]} values
   */
  add(index, time, values) {
    const {data} = this.charts[index];
    if (data[0].length && time < data[0][data[0].length - 1]) data.forEach(column => column.splice(0));  // the clock was set back
    data[0].push(time);
    values.forEach((value, i) => data[i + 1].push(Number.isFinite(value) ? value : null));
    if (data[0].length > MAX_SAMPLES) data.forEach(column => column.splice(0, column.length - MAX_SAMPLES + 500));
  }

  /** @param {number} now ms */
  draw(now) {
    if (now - this.drawnAt < PERIOD) return;
    this.drawnAt = now;
    for (const {chart, data} of this.charts) chart.setData(data);
  }
}
