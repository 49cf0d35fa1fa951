"""A layout of a stack for PlotJuggler: a tab for each page of plots, and the topics to be streamed."""

from __future__ import annotations

from itertools import cycle
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from lfdm_ros.stacks.graph import Connection
from lfdm_ros.stacks.plots import pages

_STREAMER = "ROS2 Topic Subscriber"
_COLOURS = ("#1f77b4", "#d62728", "#1ac938", "#ff7f0e", "#f14cc1", "#9467bd", "#17becf", "#bcbd22")


def layout(graph: list[Connection]) -> str:
    """The file's content; "" where there is nothing to plot."""
    shown = list(pages(graph))
    if not shown:
        return ""
    root = Element("root")
    tabs = SubElement(root, "tabbed_widget", {"parent": "main_window", "name": "Main Window"})
    for page, plots in shown:
        container = SubElement(SubElement(tabs, "Tab", tab_name=page, containers="1"), "Container")
        sizes = ";".join([f"{1.0 / len(plots):.6f}"] * len(plots))
        parts = SubElement(container, "DockSplitter", orientation="-", count=str(len(plots)), sizes=sizes)
        for title, curves in plots:
            area = SubElement(parts, "DockArea", name=title)
            plot = SubElement(area, "plot", mode="TimeSeries", style="Lines", flip_x="false", flip_y="false")
            SubElement(plot, "limitY")
            for (topic, field), colour in zip(curves, cycle(_COLOURS)):
                SubElement(plot, "curve", name=f"{topic}/{field}", color=colour)
    SubElement(tabs, "currentTabIndex", index="0")
    SubElement(root, "use_relative_time_offset", enabled="1")
    plugin = SubElement(SubElement(root, "Plugins"), "plugin", ID=_STREAMER)
    topics = dict.fromkeys(topic for _, plots in shown for _, curves in plots for topic, _ in curves)
    SubElement(plugin, "selected_topics", value=";".join(topics))
    SubElement(root, "previouslyLoaded_Datafiles")
    SubElement(root, "previouslyLoaded_Streamer", name=_STREAMER)
    indent(root)
    return "<?xml version='1.0' encoding='UTF-8'?>\n" + tostring(root, encoding="unicode") + "\n"
