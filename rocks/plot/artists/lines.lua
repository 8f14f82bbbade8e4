-- lines.lua - methods of Axes that draw lines, points, error bars and the area between curves.

local args = require "tlua.args"
local common = require "tlua.plot.artists.common"
local torch = require "tlua"
local values = require "tlua.plot.values"

local who <const> = common.who

---@class utils.plot.Axes
local Axes = {}

local plot_signature <const> = [[utils.plot.Axes.%s(x: any, y: any?, label: string?,
   color: any?, linewidth: number = 1.5, linestyle: string = '-', marker: string?,
   markersize: number = 6, alpha: number = 1)]]
local take_plot = args.signature(plot_signature:format "plot")

-- Adds a line to the axes for the method `name`, whose arguments `take` reads.
local function draw_line(self, name, take, ...)
   local a, title = take(...), who .. name
   common.check_flat(self, name)
   local third = select(3, ...)
   if type(third) == "string" then
      torch.raise(('%s: expected lists and then a table of options, got %q; a format such as "r--" '
         .. 'is {color = "red", linestyle = "--"}'):format(title, third))
   end
   local x, y = common.pair(title, a.x, a.y)
   common.check_alpha(title, a.alpha)
   common.check_width(title, "linewidth", a.linewidth)
   common.check_width(title, "markersize", a.markersize)
   common.add(self, {kind = "line", xs = x, ys = y, width = a.linewidth,
      colour = common.next_colour(self, title, a.color), dash = common.dash_of(title, a.linestyle),
      alpha = a.alpha, marker = common.check_marker(title, a.marker), size = a.markersize,
      label = a.label}, a.color == nil)
   return self
end

--- Draws a line. The line has gaps at values that are not finite and, on a logarithmic axis, at
--- values that are not above zero. A single list is taken as y, with x = 1, 2, 3 and so on.
---@param x number[]|Tensor  the horizontal positions
---@param y? number[]|Tensor  the vertical positions
---@param options? {label: string, color: any, linewidth: number, linestyle: string, marker: string,
--- markersize: number, alpha: number}  color: a name, "C0" to "C9", "#rrggbb" or {r, g, b};
--- linestyle: "-", "--", ":", "-." or "none"; marker: "o", "s", "^", "v", "D", "x", "+" or "."
---@return utils.plot.Axes self
function Axes:plot(...)
   return draw_line(self, "plot", take_plot, ...)
end

for name, axis in pairs {semilogx = {"x"}, semilogy = {"y"}, loglog = {"x", "y"}} do
   local take <const> = args.signature(plot_signature:format(name))
   Axes[name] = function(self, ...)
      for _, which in ipairs(axis) do common.check_scale(self, name, which, "log") end
      draw_line(self, name, take, ...)
      for _, which in ipairs(axis) do self.scale[which] = "log" end
      return self
   end
end

--- Draws a line on a logarithmic axis of x (semilogx), of y (semilogy), or of both (loglog). The
--- options are those of plot.
---@names utils.plot.Axes.semilogx, utils.plot.Axes.semilogy, utils.plot.Axes.loglog
---@param x number[]|Tensor  the horizontal positions
---@param y? number[]|Tensor  the vertical positions
---@param options? table  as in plot
---@return utils.plot.Axes self

local take_scatter = args.signature [[utils.plot.Axes.scatter(x: any, y: any, s: any = 36, c: any?,
   label: string?, marker: string = 'o', alpha: number = 1, cmap: string = 'viridis',
   vmin: number?, vmax: number?)]]

--- Draws points. Points with coordinates that are not finite are left out.
---@param x number[]|Tensor  the horizontal positions
---@param y number[]|Tensor  the vertical positions
---@param options? {s: number|number[], c: any, label: string, marker: string, alpha: number,
--- cmap: string, vmin: number, vmax: number}  s: areas in square pixels; c: a colour, or a number
--- for each point that the map `cmap` shows as a colour
---@return table points  for figure:colorbar
function Axes:scatter(...)
   local title = who .. "scatter"
   local a = take_scatter(...)
   common.check_flat(self, "scatter")
   local x, y = common.pair(title, a.x, a.y)
   common.check_alpha(title, a.alpha)
   local artist = common.point_colours(self, title, a, #x)
   artist.kind, artist.xs, artist.ys, artist.label = "points", x, y, a.label
   artist.sizes = common.sizes(title, a.s, #x)
   artist.marker, artist.alpha = common.check_marker(title, a.marker) or "o", a.alpha
   artist.axes = self
   return common.add(self, artist, a.c == nil)
end

local take_errorbar = args.signature [[utils.plot.Axes.errorbar(x: any, y: any, yerr: any?,
   xerr: any?, label: string?, color: any?, linewidth: number = 1.5, linestyle: string = '-',
   marker: string?, markersize: number = 6, capsize: number = 3, alpha: number = 1)]]

--- Draws a line with error bars. The errors are one number, a number for each point, or a table
--- {below, above} of two lists.
---@param x number[]|Tensor  the horizontal positions
---@param y number[]|Tensor  the vertical positions
---@param options? {yerr: any, xerr: any, label: string, color: any, linewidth: number,
--- linestyle: string, marker: string, markersize: number, capsize: number, alpha: number}
--- capsize: half the width of the bars' ends; the other options are those of plot
---@return utils.plot.Axes self
function Axes:errorbar(...)
   local title = who .. "errorbar"
   local a = take_errorbar(...)
   common.check_flat(self, "errorbar")
   local x, y = common.pair(title, a.x, a.y)
   common.check_alpha(title, a.alpha)
   for _, name in ipairs {"linewidth", "markersize", "capsize"} do
      common.check_width(title, name, a[name])
   end
   local yerr = common.errors_of(title, "yerr", a.yerr, #x)
   local xerr = common.errors_of(title, "xerr", a.xerr, #x)
   common.add(self, {kind = "errors", x = x, y = y, xerr = xerr, yerr = yerr,
      xs = common.add_ends(x, x, xerr), ys = common.add_ends(y, y, yerr),
      colour = common.next_colour(self, title, a.color), width = a.linewidth,
      dash = common.dash_of(title, a.linestyle), marker = common.check_marker(title, a.marker),
      size = a.markersize, cap = a.capsize, alpha = a.alpha, label = a.label}, a.color == nil)
   return self
end

local take_between = args.signature [[utils.plot.Axes.fill_between(x: any, y1: any, y2: any = 0,
   color: any?, alpha: number = 1, label: string?)]]

--- Fills the area between two curves, with gaps where a value is not finite.
---@param x number[]|Tensor  the horizontal positions
---@param y1 number|number[]|Tensor  one border
---@param y2? number|number[]|Tensor  0 by default
---@param options? {color: any, alpha: number, label: string}  alpha: from 0, invisible, to 1
---@return utils.plot.Axes self
function Axes:fill_between(...)
   local title = who .. "fill_between"
   local a = take_between(...)
   common.check_flat(self, "fill_between")
   local x = values.list(title, "x", a.x)
   local y1 = values.spread(title, "y1", a.y1, #x)
   local y2 = values.spread(title, "y2", a.y2, #x)
   common.check_alpha(title, a.alpha)
   common.add(self, {kind = "between", xs = x, y1 = y1, y2 = y2,
      ys = table.move(y2, 1, #y2, #y1 + 1, table.move(y1, 1, #y1, 1, {})),
      colour = common.next_colour(self, title, a.color), alpha = a.alpha, label = a.label},
      a.color == nil)
   return self
end

return Axes
