-- Axes.lua - one drawing (panel) of a figure made by utils.plot.subplots. Its methods have
-- matplotlib's names and collect artists, the things to draw; panels.lua draws them.

local args = require "tlua.args"
local class = require "tlua.class"
local colours = require "tlua.plot.colours"
local torch = require "tlua"
local values = require "tlua.plot.values"

--- One drawing of a figure, with its axes. The names of methods and options are matplotlib's.
--- Positions in lists count from 1: a line without x has x = 1, 2, 3 and so on.
---
---     local figure, axes = torch.utils.plot.subplots()
---     axes:plot({1, 4, 9}, {label = "squares"})
---     axes:legend()
---     axes:set_title "growth"
---     print(figure:svg():find "squares" ~= nil)
---     --> true
---@class utils.plot.Axes
local Axes = class.class("utils.plot.Axes")

local who <const> = "utils.plot.Axes."

function Axes:__init(figure, projection)
   self.figure, self.projection = figure, projection
   self.artists, self.lines = {}, 0
   self.scale = {x = "linear", y = "linear"}
   self.limits, self.ticks, self.labels = {}, {}, {}
   self.title = ""
end

-- Returns the given colour, or without one the next colour of the cycle.
local function next_colour(self, title, given)
   if given ~= nil then return colours.parse(title, "color", given) end
   self.lines = self.lines + 1
   return colours.of_cycle(self.lines)
end

local function add(self, artist)
   self.artists[#self.artists + 1] = artist
   return artist
end

local function flat(self, name)
   if self.projection then
      torch.raise(("%s%s: expected axes of two dimensions, got a projection in 3d"):format(who,
         name))
   end
end

local function check_alpha(title, alpha)
   if not (alpha >= 0 and alpha <= 1) then
      args.refuse(title, "alpha", "a number from 0 to 1", alpha)
   end
end

local function check_width(title, name, value)
   if not (value >= 0 and value <= 1000) then
      args.refuse(title, name, "a number from 0 to 1000", value)
   end
end

local dashes <const> = {["-"] = false, ["--"] = {6, 3}, [":"] = {1.5, 2.5},
   ["-."] = {6, 2.5, 1.5, 2.5}, none = "none", [""] = "none"}

local function dash_of(title, style)
   local dash = dashes[style]
   if dash == nil then args.refuse(title, "linestyle", '"-", "--", ":", "-." or "none"', style) end
   return dash
end

local markers <const> = {o = true, s = true, ["^"] = true, v = true, x = true, ["+"] = true,
   D = true, ["."] = true, none = true}

local function check_marker(title, marker)
   if marker and not markers[marker] then
      args.refuse(title, "marker", '"o", "s", "^", "v", "D", "x", "+", "." or "none"', marker)
   end
   return marker ~= "none" and marker or nil
end

local function pair(title, x, y)
   if y == nil then
      y = values.list(title, "y", x)
      return values.positions(#y), y
   end
   x, y = values.list(title, "x", x), values.list(title, "y", y)
   if #x ~= #y then
      torch.raise(("%s: expected as many x as y, got %d and %d"):format(title, #x, #y))
   end
   return x, y
end

-- Lines ---------------------------------------------------------------------------------------

local take_plot = args.signature [[utils.plot.Axes.plot(x: any, y: any?, label: string?,
   color: any?, linewidth: number = 1.5, linestyle: string = '-', marker: string?,
   markersize: number = 6, alpha: number = 1)]]

--- Draws a line. It has gaps at values that are not finite, or not above zero on a logarithmic
--- axis. A single list is taken as y, with x = 1, 2, 3 and so on.
---@param x number[]|Tensor  the horizontal positions
---@param y? number[]|Tensor  the vertical positions
---@param options? {label: string, color: any, linewidth: number, linestyle: string, marker: string,
--- markersize: number, alpha: number}  color: a name, "C0" to "C9", "#rrggbb" or {r, g, b};
--- linestyle: "-", "--", ":", "-." or "none"; marker: "o", "s", "^", "v", "D", "x", "+" or "."
---@return utils.plot.Axes self
function Axes:plot(...)
   local a = take_plot(...)
   flat(self, "plot")
   local x, y = pair(who .. "plot", a.x, a.y)
   check_alpha(who .. "plot", a.alpha)
   check_width(who .. "plot", "linewidth", a.linewidth)
   check_width(who .. "plot", "markersize", a.markersize)
   add(self, {kind = "line", xs = x, ys = y, colour = next_colour(self, who .. "plot", a.color),
      width = a.linewidth, dash = dash_of(who .. "plot", a.linestyle), alpha = a.alpha,
      marker = check_marker(who .. "plot", a.marker), size = a.markersize, label = a.label})
   return self
end

for name, axis in pairs {semilogx = {"x"}, semilogy = {"y"}, loglog = {"x", "y"}} do
   Axes[name] = function(self, ...)
      for _, which in ipairs(axis) do self.scale[which] = "log" end
      return Axes.plot(self, ...)
   end
end

--- Draws a line on a logarithmic axis of x (semilogx), of y (semilogy), or of both (loglog). The
--- options are those of plot.
---@names utils.plot.Axes.semilogx, utils.plot.Axes.semilogy, utils.plot.Axes.loglog
---@param x number[]|Tensor  the horizontal positions
---@param y? number[]|Tensor  the vertical positions
---@param options? table  those of plot
---@return utils.plot.Axes self

local take_scatter = args.signature [[utils.plot.Axes.scatter(x: any, y: any, s: any = 36, c: any?,
   label: string?, marker: string = 'o', alpha: number = 1, cmap: string = 'viridis',
   vmin: number?, vmax: number?)]]

-- Reads the option `c` of points: one colour for all, or n numbers, which the map `cmap` turns into
-- colours.
local function point_colours(self, title, a, n)
   local c = a.c
   local is_numbers = torch.is_tensor(c)
      or type(c) == "table" and type(c[1]) == "number" and (#c ~= 3 or n == 3)
   if not is_numbers then return {colour = next_colour(self, title, c)} end
   local list = values.list(title, "c", c)
   values.same_count(title, "c", #list, n)
   local low, high = values.range(list)
   return {shades = list, map = colours.map(title, a.cmap), vmin = a.vmin or low or 0,
      vmax = a.vmax or high or 1, colour = colours.of_cycle(1)}
end

--- Draws points. Those that are not finite are left out.
---@param x number[]|Tensor  the horizontal positions
---@param y number[]|Tensor  the vertical positions
---@param options? {s: number|number[], c: any, label: string, marker: string, alpha: number,
--- cmap: string, vmin: number, vmax: number}  s: areas in square points; c: a colour, or a number
--- for each point that the map `cmap` shows as a colour
---@return table points  for figure:colorbar
function Axes:scatter(...)
   local title = who .. "scatter"
   local a = take_scatter(...)
   flat(self, "scatter")
   local x, y = pair(title, a.x, a.y)
   check_alpha(title, a.alpha)
   local artist = point_colours(self, title, a, #x)
   artist.kind, artist.xs, artist.ys, artist.label = "points", x, y, a.label
   artist.sizes = values.spread(title, "s", a.s, #x)
   artist.marker, artist.alpha = check_marker(title, a.marker) or "o", a.alpha
   artist.axes = self
   return add(self, artist)
end

local take_errorbar = args.signature [[utils.plot.Axes.errorbar(x: any, y: any, yerr: any?,
   xerr: any?, label: string?, color: any?, linewidth: number = 1.5, linestyle: string = '-',
   marker: string?, markersize: number = 6, capsize: number = 3, alpha: number = 1)]]

-- Returns {below = list, above = list}, the lengths of n error bars. `value` is one number, n
-- numbers, or {below, above}, each of them a number or n numbers.
local function errors_of(title, name, value, n)
   if value == nil then return nil end
   local below, above
   local two = type(value) == "table" and not getmetatable(value) and #value == 2
      and type(value[1]) ~= "number"
   if torch.is_tensor(value) and value:dim() == 2 and value:size(1) == 2 then
      value, two = {value[1], value[2]}, true
   end
   if two then
      below = values.spread(title, name, value[1], n)
      above = values.spread(title, name, value[2], n)
   else
      below = values.spread(title, name, value, n)
      above = below
   end
   for _, list in ipairs {below, above} do
      for i, distance in ipairs(list) do
         if distance < 0 then
            args.refuse(title, ("%s, value %d"):format(name, i), "a number of at least 0", distance)
         end
      end
   end
   return {below = below, above = above}
end

local function add_ends(list, centre, errors)
   local all = table.move(list, 1, #list, 1, {})
   if not errors then return all end
   for i, value in ipairs(centre) do
      all[#all + 1] = value - errors.below[i]
      all[#all + 1] = value + errors.above[i]
   end
   return all
end

--- Draws a line with error bars. Errors are one number, a number for each point, or two lists,
--- {below, above}.
---@param x number[]|Tensor  the horizontal positions
---@param y number[]|Tensor  the vertical positions
---@param options? {yerr: any, xerr: any, label: string, color: any, linewidth: number,
--- linestyle: string, marker: string, markersize: number, capsize: number, alpha: number}
--- capsize: half the width of the bars' ends; the other options are those of plot
---@return utils.plot.Axes self
function Axes:errorbar(...)
   local title = who .. "errorbar"
   local a = take_errorbar(...)
   flat(self, "errorbar")
   local x, y = pair(title, a.x, a.y)
   check_alpha(title, a.alpha)
   check_width(title, "linewidth", a.linewidth)
   local yerr, xerr = errors_of(title, "yerr", a.yerr, #x), errors_of(title, "xerr", a.xerr, #x)
   add(self, {kind = "errors", x = x, y = y, xerr = xerr, yerr = yerr, xs = add_ends(x, x, xerr),
      ys = add_ends(y, y, yerr), colour = next_colour(self, title, a.color), width = a.linewidth,
      dash = dash_of(title, a.linestyle), marker = check_marker(title, a.marker),
      size = a.markersize, cap = a.capsize, alpha = a.alpha, label = a.label})
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
   flat(self, "fill_between")
   local x = values.list(title, "x", a.x)
   local y1 = values.spread(title, "y1", a.y1, #x)
   local y2 = values.spread(title, "y2", a.y2, #x)
   check_alpha(title, a.alpha)
   add(self, {kind = "between", xs = x, y1 = y1, y2 = y2,
      ys = table.move(y2, 1, #y2, #y1 + 1, table.move(y1, 1, #y1, 1, {})),
      colour = next_colour(self, title, a.color), alpha = a.alpha, label = a.label})
   return self
end

-- Bars ----------------------------------------------------------------------------------------

local take_bar = args.signature [[utils.plot.Axes.bar(x: any, height: any, width: number = 0.8,
   bottom: any = 0, color: any?, label: string?, yerr: any?, capsize: number = 3,
   alpha: number = 1, edgecolor: any?)]]

--- Draws bars. If x is a list of names, the bars are at 1, 2, 3 and so on, and the names mark them.
---@param x number[]|string[]|Tensor  the horizontal positions
---@param height number|number[]|Tensor  the heights of the bars
---@param options? {width: number, bottom: any, color: any, label: string, yerr: any,
--- capsize: number, alpha: number, edgecolor: any}  width: the width of each bar; bottom: the
--- heights at which bars begin; yerr: errors as in errorbar
---@return utils.plot.Axes self
function Axes:bar(...)
   local title = who .. "bar"
   local a = take_bar(...)
   flat(self, "bar")
   local x = a.x
   if type(x) == "table" and type(x[1]) == "string" then
      local names = {}
      for i, name in ipairs(x) do
         if type(name) ~= "string" then
            args.refuse(title, ("x, value %d"):format(i), "a string, as before", name)
         end
         names[i] = name
      end
      x = values.positions(#names)
      self:set_xticks(x, names)
   end
   x = values.list(title, "x", x)
   local height = values.spread(title, "height", a.height, #x)
   local bottom = values.spread(title, "bottom", a.bottom, #x)
   check_alpha(title, a.alpha)
   local yerr = errors_of(title, "yerr", a.yerr, #x)
   local bars, xs, ys, tops = {}, {}, {}, {}
   for i = 1, #x do
      local top = bottom[i] + height[i]
      bars[i] = {x[i] - a.width / 2, bottom[i], x[i] + a.width / 2, top}
      xs[2 * i - 1], xs[2 * i] = bars[i][1], bars[i][3]
      ys[2 * i - 1], ys[2 * i] = bottom[i], top
      tops[i] = top
   end
   add(self, {kind = "bars", bars = bars, xs = xs, ys = add_ends(ys, tops, yerr), floor = true,
      colour = next_colour(self, title, a.color), alpha = a.alpha, label = a.label,
      edge = a.edgecolor and colours.parse(title, "edgecolor", a.edgecolor),
      errors = yerr and {kind = "errors", x = x, y = tops, yerr = yerr, colour = 0x333333,
         width = 1.2, dash = "none", cap = a.capsize, alpha = 1}})
   return self
end

local take_hist = args.signature [[utils.plot.Axes.hist(x: any, bins: any = 10, range: numbers?,
   density: boolean = false, color: any?, label: string?, alpha: number = 1,
   edgecolor: any?)]]

-- Returns the edges of a histogram's bins, from their number or from a list of edges.
local function edges_of(title, bins, range, list)
   if type(bins) ~= "number" then
      local edges = values.list(title, "bins", bins)
      if #edges < 2 then args.refuse(title, "bins", "at least two edges", bins) end
      for i = 2, #edges do
         if edges[i] - edges[i - 1] ~= edges[i] - edges[i - 1] or edges[i] <= edges[i - 1] then
            args.refuse(title, ("bins, edge %d"):format(i), "more than the edge before", edges[i])
         end
      end
      return edges
   end
   local n = math.tointeger(bins)
   if not n or n < 1 or n > 100000 then
      args.refuse(title, "bins", "an integer from 1 to 100000, or a list of edges", bins)
   end
   local low, high
   if range then
      low, high = range[1], range[2]
      if #range ~= 2 or high - low ~= high - low or low >= high or high - low == math.huge then
         args.refuse(title, "range", "two numbers, the lower one first", range)
      end
   else
      low, high = values.range(list)
      low, high = low or 0, high or 1
      if low == high then low, high = low - 0.5, high + 0.5 end
   end
   local edges = {}
   for i = 0, n do edges[i + 1] = low + (high - low) * (i / n) end
   edges[n + 1] = high
   return edges
end

-- Returns the number of the bin that contains a value; nil if there is none. The last bin includes
-- its upper edge.
local function bin_of(edges, value)
   local low, high = 1, #edges
   if not (value >= edges[1] and value <= edges[high]) then return nil end
   while high - low > 1 do
      local middle = (low + high) // 2
      if value >= edges[middle] then low = middle else high = middle end
   end
   return low
end

--- Draws a histogram. All values must be finite unless `range` or edges are given.
---@param x number[]|Tensor  the values
---@param options? {bins: integer|number[], range: number[], density: boolean, color: any,
--- label: string, alpha: number, edgecolor: any}  bins: the number of bins, or their edges;
--- density: whether to scale the bars to a total area of 1
---@return number[] counts
---@return number[] edges
function Axes:hist(...)
   local title = who .. "hist"
   local a = take_hist(...)
   flat(self, "hist")
   local x = a.x
   if torch.is_tensor(x) then x = x:flatten() end
   local list = values.list(title, "x", x)
   check_alpha(title, a.alpha)
   if not a.range and type(a.bins) == "number" then
      for i, value in ipairs(list) do
         if not values.finite(value) then
            torch.raise(("%s: x, value %d: expected a finite number, or range; got %s"):format(
               title, i, value))
         end
      end
   end
   local edges = edges_of(title, a.bins, a.range, list)
   local counts, total = {}, 0
   for i = 1, #edges - 1 do counts[i] = 0 end
   for _, value in ipairs(list) do
      local bin = bin_of(edges, value)
      if bin then
         counts[bin] = counts[bin] + 1
         total = total + 1
      end
   end
   local bars, ys = {}, {0}
   for i = 1, #counts do
      if a.density and total > 0 then
         counts[i] = counts[i] / (total * (edges[i + 1] - edges[i]))
      end
      bars[i] = {edges[i], 0, edges[i + 1], counts[i]}
      ys[i + 1] = counts[i]
   end
   add(self, {kind = "bars", bars = bars, xs = edges, ys = ys, floor = true, label = a.label,
      colour = next_colour(self, title, a.color), alpha = a.alpha,
      edge = a.edgecolor and colours.parse(title, "edgecolor", a.edgecolor)})
   return counts, edges
end

local take_box = args.signature [[utils.plot.Axes.boxplot(x: any, labels: any?, whis: number = 1.5,
   showfliers: boolean = true, widths: number = 0.5)]]

-- Returns a quantile of sorted values, with linear interpolation. `share` is from 0 to 1.
local function quantile(sorted, share)
   local at = (#sorted - 1) * share + 1
   local i = math.floor(at)
   if i >= #sorted then return sorted[#sorted] end
   return sorted[i] + (sorted[i + 1] - sorted[i]) * (at - i)
end

--- Draws a box for each list of values, from the lower to the upper quartile with a line at the
--- median. Whiskers reach to the last values within `whis` times the distance of the quartiles;
--- values beyond are drawn as points.
---@param x number[]|number[][]|Tensor  one list, several lists, or a matrix, one box for a column
---@param options? {labels: string[], whis: number, showfliers: boolean, widths: number}
--- labels: the texts below the boxes; showfliers: whether values beyond the whiskers are shown;
--- widths: the width of each box
---@return utils.plot.Axes self
function Axes:boxplot(...)
   local title = who .. "boxplot"
   local a = take_box(...)
   flat(self, "boxplot")
   local sets = a.x
   if torch.is_tensor(sets) and sets:dim() == 2 then
      local columns = {}
      for i = 1, sets:size(2) do columns[i] = sets:select(2, i) end
      sets = columns
   elseif torch.is_tensor(sets) or type(sets) == "table" and type(sets[1]) == "number" then
      sets = {sets}
   elseif type(sets) ~= "table" or getmetatable(sets) then
      args.refuse(title, "x", "a list of numbers, or several", sets)
   end
   local boxes, xs, ys = {}, {}, {}
   for i, set in ipairs(sets) do
      local list = values.list(title, ("x, list %d"):format(i), set)
      for k, value in ipairs(list) do
         if not values.finite(value) then
            torch.raise(("%s: x, list %d, value %d: expected a finite number, got %s"):format(title,
               i, k, value))
         end
      end
      xs[#xs + 1], xs[#xs + 2] = i - 0.5, i + 0.5
      if #list > 0 then
         table.sort(list)
         local q1, q3 = quantile(list, 0.25), quantile(list, 0.75)
         local reach = a.whis * (q3 - q1)
         local box = {at = i, q1 = q1, median = quantile(list, 0.5), q3 = q3, low = q1, high = q3,
            fliers = {}, width = a.widths}
         for _, value in ipairs(list) do
            if value >= q1 - reach then
               box.low = math.min(value, q1)
               break
            end
         end
         for k = #list, 1, -1 do
            if list[k] <= q3 + reach then
               box.high = math.max(list[k], q3)
               break
            end
         end
         ys[#ys + 1], ys[#ys + 2] = box.low, box.high
         for _, value in ipairs(list) do
            if a.showfliers and (value < box.low or value > box.high) then
               box.fliers[#box.fliers + 1] = value
               ys[#ys + 1] = value
            end
         end
         boxes[#boxes + 1] = box
      end
   end
   if a.labels ~= nil then
      if type(a.labels) ~= "table" then
         args.refuse(title, "labels", "a list of texts", a.labels)
      end
      values.same_count(title, "labels", #a.labels, #sets)
   end
   add(self, {kind = "boxes", boxes = boxes, xs = xs, ys = ys, tight_x = true})
   local names = {}
   for i = 1, #sets do names[i] = a.labels and a.labels[i] or tostring(i) end
   self:set_xticks(values.positions(#sets), names)
   return self
end

-- Matrices ------------------------------------------------------------------------------------

local take_imshow = args.signature [[utils.plot.Axes.imshow(X: any, cmap: string = 'viridis',
   vmin: number?, vmax: number?, norm: string = 'linear', origin: string = 'upper',
   aspect: string = 'equal', extent: numbers?)]]

-- Returns the values with the first and the last colour of the map: vmin and vmax, or the range of
-- the list.
local function colour_range(title, a, list)
   if a.norm ~= "linear" and a.norm ~= "log" then
      args.refuse(title, "norm", '"linear" or "log"', a.norm)
   end
   local low, high = values.range(list, a.norm == "log")
   low, high = a.vmin or low or (a.norm == "log" and 1 or 0), a.vmax or high or 1
   if low > high or not (values.finite(low) and values.finite(high)) then
      torch.raise(("%s: vmin: expected at most vmax, got %g and %g"):format(title, low, high))
   end
   if a.norm == "log" and low <= 0 then
      torch.raise(("%s: vmin: expected more than 0 with norm = \"log\", got %g"):format(title, low))
   end
   return low, high
end

--- Shows a matrix as colours (a heat map). NaN is left white, and with norm = "log" so are values
--- that are not above zero; infinite values have the colours of the map's ends. Rows and columns
--- count from 1.
---@param X number[][]|Tensor  the matrix
---@param options? {cmap: string, vmin: number, vmax: number, norm: string, origin: string,
--- aspect: string, extent: number[]}  aspect: "equal" or "auto"; extent: {left, right, bottom, top}
---@return table image  for figure:colorbar
function Axes:imshow(...)
   local title = who .. "imshow"
   local a = take_imshow(...)
   flat(self, "imshow")
   local matrix = values.matrix(title, "X", a.X, 1)
   if a.origin ~= "upper" and a.origin ~= "lower" then
      args.refuse(title, "origin", '"upper" or "lower"', a.origin)
   end
   if a.aspect ~= "equal" and a.aspect ~= "auto" then
      args.refuse(title, "aspect", '"equal" or "auto"', a.aspect)
   end
   local rows, columns = matrix:size(1), matrix:size(2)
   local extent = a.extent
   if extent and (#extent ~= 4 or extent[1] == extent[2] or extent[3] == extent[4]) then
      args.refuse(title, "extent", "{left, right, bottom, top}", extent)
   end
   extent = extent or (a.origin == "upper" and {0.5, columns + 0.5, rows + 0.5, 0.5}
      or {0.5, columns + 0.5, 0.5, rows + 0.5})
   local low, high = colour_range(title, a, matrix:flatten():tolist())
   self.equal = a.aspect == "equal"
   self.upside_down = extent[3] > extent[4]
   return add(self, {kind = "image", matrix = matrix, upper = a.origin == "upper",
      map = colours.map(title, a.cmap), vmin = low, vmax = high, log = a.norm == "log",
      left = math.min(extent[1], extent[2]), right = math.max(extent[1], extent[2]),
      low = math.min(extent[3], extent[4]), high = math.max(extent[3], extent[4]),
      bottom = extent[3], top = extent[4],
      xs = {extent[1], extent[2]}, ys = {extent[3], extent[4]}, tight_x = true, tight_y = true,
      axes = self})
end

-- Returns round heights that cover the range from `low` to `high`. Their distance is 1, 2, 2.5 or 5
-- times a power of ten: the smallest that divides the range into at most n parts.
local function round_levels(low, high, n)
   local range = high / n - low / n
   if range <= 0 or range == math.huge then return {low - 0.5, low + 0.5} end
   local power = 10.0 ^ math.floor(math.log(range, 10))
   local step = 10 * power
   for _, factor in ipairs {5, 2.5, 2, 1} do
      if factor * power >= range * (1 - 1e-9) then step = factor * power end
   end
   local levels = {}
   local first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
   for k = first, last do levels[#levels + 1] = k * step end
   return levels
end

-- Reads the arguments of contour and contourf: (Z) or (X, Y, Z).
local function surface(title, a)
   local z = a.Z
   local x, y
   if z == nil then
      if a.Y ~= nil then torch.raise(title .. ": expected (Z) or (X, Y, Z), got two arguments") end
      z = values.matrix(title, "Z", a.X, 2)
      x, y = values.positions(z:size(2)), values.positions(z:size(1))
   else
      z = values.matrix(title, "Z", z, 2)
      local function line(name, value, dim, n)
         if torch.is_tensor(value) and value:dim() == 2 then value = value:select(3 - dim, 1) end
         local list = values.list(title, name, value)
         values.same_count(title, name, #list, n)
         for i = 1, #list do
            if not values.finite(list[i]) or i > 1 and list[i] <= list[i - 1] then
               torch.raise(("%s: %s, value %d: expected finite numbers in rising order"):format(
                  title, name, i))
            end
         end
         return list
      end
      x, y = line("X", a.X, 2, z:size(2)), line("Y", a.Y, 1, z:size(1))
   end
   local low, high = values.range(z:flatten():tolist())
   low, high = low or 0, high or 1
   local levels = a.levels
   if type(levels) == "number" then
      local n = math.tointeger(levels)
      if not n or n < 1 or n > 200 then
         args.refuse(title, "levels", "an integer from 1 to 200, or a list of numbers", levels)
      end
      levels = round_levels(low, high, n)
   else
      levels = values.list(title, "levels", levels)
      if #levels < 1 then args.refuse(title, "levels", "at least one number", a.levels) end
      for i = 2, #levels do
         if levels[i] ~= levels[i] or levels[i] <= levels[i - 1] then
            args.refuse(title, ("levels, value %d"):format(i), "more than the one before",
               levels[i])
         end
      end
   end
   return {x = x, y = y, rows = z:tolist(), levels = levels, xs = {x[1], x[#x]},
      ys = {y[1], y[#y]}, tight_x = true, tight_y = true, vmin = levels[1],
      vmax = levels[#levels], map = colours.map(title, a.cmap)}
end

local take_contour = args.signature [[utils.plot.Axes.contour(X: any, Y: any?, Z: any?,
   levels: any = 8, cmap: string = 'viridis', colors: any?, linewidths: number = 1.5)]]

--- Draws lines of equal height: contour(Z) or contour(X, Y, Z), where X has the positions of Z's
--- columns and Y the positions of its rows. Grid cells with values that are not finite have no
--- lines.
---@param X number[]|number[][]|Tensor  the positions of Z's columns, or Z
---@param Y? number[]|Tensor  the positions of Z's rows
---@param Z? number[][]|Tensor  the matrix of heights
---@param options? {levels: integer|number[], cmap: string, colors: any, linewidths: number}
--- levels: the heights, or the largest number of parts into which round heights divide the range;
--- colors: one colour, instead of the map cmap
---@return table contours  for figure:colorbar
function Axes:contour(...)
   local title = who .. "contour"
   local a = take_contour(...)
   flat(self, "contour")
   local artist = surface(title, a)
   check_width(title, "linewidths", a.linewidths)
   artist.kind, artist.width, artist.axes = "contour", a.linewidths, self
   artist.colour = a.colors and colours.parse(title, "colors", a.colors)
   return add(self, artist)
end

local take_contourf = args.signature [[utils.plot.Axes.contourf(X: any, Y: any?, Z: any?,
   levels: any = 8, cmap: string = 'viridis')]]

--- Fills the areas between the lines that contour draws for the same arguments.
---@param X number[]|number[][]|Tensor  the positions of Z's columns, or Z
---@param Y? number[]|Tensor  the positions of Z's rows
---@param Z? number[][]|Tensor  the matrix of heights
---@param options? {levels: integer|number[], cmap: string}  levels: as for contour; cmap: viridis,
--- magma, plasma, coolwarm or gray; the ending _r, as in viridis_r, reverses a map
---@return table contours  for figure:colorbar
function Axes:contourf(...)
   local title = who .. "contourf"
   local a = take_contourf(...)
   flat(self, "contourf")
   local artist = surface(title, a)
   if #artist.levels < 2 then args.refuse(title, "levels", "at least two numbers", a.levels) end
   artist.kind, artist.axes = "bands", self
   return add(self, artist)
end

-- Three dimensions ----------------------------------------------------------------------------

local function deep(self, name)
   if self.projection ~= "3d" then
      torch.raise(('%s%s: expected axes with projection = "3d"'):format(who, name))
   end
end

local function triple(title, a)
   local x, y, z = values.list(title, "x", a.x), values.list(title, "y", a.y),
      values.list(title, "z", a.z)
   if #x ~= #y or #x ~= #z then
      torch.raise(("%s: expected as many x as y and z, got %d, %d and %d"):format(title, #x, #y,
         #z))
   end
   return x, y, z
end

local take_scatter3 = args.signature [[utils.plot.Axes.scatter3D(x: any, y: any, z: any,
   s: any = 20, c: any?, label: string?, marker: string = 'o', alpha: number = 1,
   cmap: string = 'viridis', vmin: number?, vmax: number?)]]

--- Draws points in space, in axes with projection = "3d".
---@param x number[]|Tensor  the horizontal positions
---@param y number[]|Tensor  the vertical positions
---@param z number[]|Tensor  the heights
---@param options? {s: number|number[], c: any, label: string, marker: string, alpha: number,
--- cmap: string, vmin: number, vmax: number}  those of scatter
---@return table points  for figure:colorbar
function Axes:scatter3D(...)
   local title = who .. "scatter3D"
   local a = take_scatter3(...)
   deep(self, "scatter3D")
   local x, y, z = triple(title, a)
   check_alpha(title, a.alpha)
   local artist = point_colours(self, title, a, #x)
   artist.kind, artist.xs, artist.ys, artist.zs, artist.label = "points", x, y, z, a.label
   artist.sizes = values.spread(title, "s", a.s, #x)
   artist.marker, artist.alpha = check_marker(title, a.marker) or "o", a.alpha
   artist.axes = self
   return add(self, artist)
end

local take_plot3 = args.signature [[utils.plot.Axes.plot3D(x: any, y: any, z: any, label: string?,
   color: any?, linewidth: number = 1.5, linestyle: string = '-', alpha: number = 1)]]

--- Draws a line in space, in axes with projection = "3d".
---@param x number[]|Tensor  the horizontal positions
---@param y number[]|Tensor  the vertical positions
---@param z number[]|Tensor  the heights
---@param options? {label: string, color: any, linewidth: number, linestyle: string, alpha: number}
--- those of plot
---@return utils.plot.Axes self
function Axes:plot3D(...)
   local title = who .. "plot3D"
   local a = take_plot3(...)
   deep(self, "plot3D")
   local x, y, z = triple(title, a)
   check_alpha(title, a.alpha)
   check_width(title, "linewidth", a.linewidth)
   add(self, {kind = "line", xs = x, ys = y, zs = z, colour = next_colour(self, title, a.color),
      width = a.linewidth, dash = dash_of(title, a.linestyle), alpha = a.alpha, label = a.label})
   return self
end

local take_view = args.signature [[utils.plot.Axes.view_init(elev: number = 30,
   azim: number = -60)]]

--- Sets the direction from which axes with projection = "3d" are seen.
---@param elev? number  degrees above the plane of x and y
---@param azim? number  degrees around the axis of z
---@return utils.plot.Axes self
function Axes:view_init(...)
   local a = take_view(...)
   deep(self, "view_init")
   if not (values.finite(a.elev) and values.finite(a.azim)) then
      args.refuse(who .. "view_init", "elev", "finite numbers", a.elev)
   end
   self.view = {a.elev, a.azim}
   return self
end

-- Marks and texts -----------------------------------------------------------------------------

local take_hline = args.signature [[utils.plot.Axes.axhline(y: number = 0, color: any = 'black',
   linewidth: number = 1, linestyle: string = '-', label: string?)]]
local take_vline = args.signature [[utils.plot.Axes.axvline(x: number = 0, color: any = 'black',
   linewidth: number = 1, linestyle: string = '-', label: string?)]]

local function straight(self, name, a, which)
   flat(self, name)
   local at = a[which]
   if not values.finite(at) then args.refuse(who .. name, which, "a finite number", at) end
   check_width(who .. name, "linewidth", a.linewidth)
   add(self, {kind = "straight", which = which, at = at, width = a.linewidth, label = a.label,
      colour = colours.parse(who .. name, "color", a.color), alpha = 1,
      dash = dash_of(who .. name, a.linestyle), xs = which == "x" and {at} or {},
      ys = which == "y" and {at} or {}})
   return self
end

--- Draws a horizontal line from edge to edge.
---@param y? number  0 by default
---@param options? {color: any, linewidth: number, linestyle: string, label: string}  those of plot
---@return utils.plot.Axes self
function Axes:axhline(...)
   return straight(self, "axhline", take_hline(...), "y")
end

--- Draws a vertical line from edge to edge.
---@param x? number  0 by default
---@param options? {color: any, linewidth: number, linestyle: string, label: string}  those of plot
---@return utils.plot.Axes self
function Axes:axvline(...)
   return straight(self, "axvline", take_vline(...), "x")
end

local take_text = args.signature [[utils.plot.Axes.text(x: number, y: number, s: string,
   color: any = 'black', fontsize: number = 11, ha: string = 'left')]]

--- Writes a text at a position of the axes.
---@param x number  the horizontal position
---@param y number  the vertical position
---@param s string  the text
---@param options? {color: any, fontsize: number, ha: string}  ha: "left", "center" or "right"
---@return utils.plot.Axes self
function Axes:text(...)
   local a = take_text(...)
   flat(self, "text")
   local anchors = {left = "start", center = "middle", right = "end"}
   if not anchors[a.ha] then
      args.refuse(who .. "text", "ha", '"left", "center" or "right"', a.ha)
   end
   check_width(who .. "text", "fontsize", a.fontsize)
   add(self, {kind = "note", x = a.x, y = a.y, text = a.s, size = a.fontsize, xs = {}, ys = {},
      anchor = anchors[a.ha], colour = colours.parse(who .. "text", "color", a.color)})
   return self
end

local take_note = args.signature [[utils.plot.Axes.annotate(text: string, xy: numbers,
   xytext: numbers?, color: any = 'black', fontsize: number = 11)]]

--- Writes a text, with an arrow from the text to a position.
---@param text string  the text
---@param xy number[]  the position {x, y}
---@param options? {xytext: number[], color: any, fontsize: number}  xytext: the text's position;
--- without it, there is no arrow
---@return utils.plot.Axes self
function Axes:annotate(text, xy, options)
   -- passes options even if nil, so that xy, a table too, is not taken for the options
   local a = take_note(text, xy, options)
   flat(self, "annotate")
   for _, name in ipairs {"xy", "xytext"} do
      local at = a[name]
      if at and (#at ~= 2 or not (values.finite(at[1]) and values.finite(at[2]))) then
         args.refuse(who .. "annotate", name, "{x, y}", at)
      end
   end
   check_width(who .. "annotate", "fontsize", a.fontsize)
   local at = a.xytext or a.xy
   add(self, {kind = "note", x = at[1], y = at[2], text = a.text, size = a.fontsize, xs = {},
      ys = {}, anchor = "start", colour = colours.parse(who .. "annotate", "color", a.color),
      target = a.xytext and a.xy})
   return self
end

-- The axes themselves -------------------------------------------------------------------------

local function check_text(name, text)
   if type(text) ~= "string" then args.refuse(who .. name, "text", "a string", text) end
   return text
end

--- Sets the title.
---@param text string  the text
---@return utils.plot.Axes self
function Axes:set_title(text)
   self.title = check_text("set_title", text)
   return self
end

--- Sets the label of the x axis.
---@param text string  the text
---@return utils.plot.Axes self
function Axes:set_xlabel(text)
   self.labels.x = check_text("set_xlabel", text)
   return self
end

--- Sets the label of the y axis.
---@param text string  the text
---@return utils.plot.Axes self
function Axes:set_ylabel(text)
   self.labels.y = check_text("set_ylabel", text)
   return self
end

--- Sets the label of the z axis.
---@param text string  the text
---@return utils.plot.Axes self
function Axes:set_zlabel(text)
   deep(self, "set_zlabel")
   self.labels.z = check_text("set_zlabel", text)
   return self
end

local function set_limits(self, name, axis, low, high)
   if type(low) == "table" and high == nil then low, high = low[1], low[2] end
   if type(low) ~= "number" or type(high) ~= "number" or low == high
      or not (values.finite(low) and values.finite(high)) then
      torch.raise(("%s%s: expected two different finite numbers, got %s and %s"):format(who, name,
         args.describe(low), args.describe(high)))
   end
   if self.scale[axis] == "log" and (low <= 0 or high <= 0) then
      torch.raise(("%s%s: expected numbers above 0 on a logarithmic axis, got %g and %g"):format(
         who, name, low, high))
   end
   self.limits[axis] = {low, high}
   return self
end

--- Sets the range of x.
---@param left number  the left end
---@param right number  the right end
---@return utils.plot.Axes self
function Axes:set_xlim(left, right) return set_limits(self, "set_xlim", "x", left, right) end

--- Sets the range of y. If `bottom` is larger than `top`, y grows downwards.
---@param bottom number  the lower end
---@param top number  the upper end
---@return utils.plot.Axes self
function Axes:set_ylim(bottom, top) return set_limits(self, "set_ylim", "y", bottom, top) end

local function set_scale(self, name, axis, scale)
   flat(self, name)
   if scale ~= "linear" and scale ~= "log" then
      args.refuse(who .. name, "scale", '"linear" or "log"', scale)
   end
   local limits = self.limits[axis]
   if scale == "log" and limits and (limits[1] <= 0 or limits[2] <= 0) then
      torch.raise(("%s%s: expected limits above 0, got %g and %g"):format(who, name, limits[1],
         limits[2]))
   end
   self.scale[axis] = scale
   return self
end

--- Sets the scale of x.
---@param scale string  "linear" or "log"
---@return utils.plot.Axes self
function Axes:set_xscale(scale) return set_scale(self, "set_xscale", "x", scale) end

--- Sets the scale of y.
---@param scale string  "linear" or "log"
---@return utils.plot.Axes self
function Axes:set_yscale(scale) return set_scale(self, "set_yscale", "y", scale) end

local function set_ticks(self, name, axis, ticks, texts)
   flat(self, name)
   local list = values.list(who .. name, "ticks", ticks)
   if texts ~= nil then
      if type(texts) ~= "table" then
         args.refuse(who .. name, "labels", "a list of texts", texts)
      end
      values.same_count(who .. name, "labels", #texts, #list)
   end
   local marks = {}
   for i, at in ipairs(list) do
      if values.finite(at) then
         marks[#marks + 1] = {value = at, text = texts and tostring(texts[i]) or ("%g"):format(at)}
      end
   end
   self.ticks[axis] = marks
   return self
end

--- Sets the tick marks of the x axis, and optionally their texts.
---@param ticks number[]|Tensor  the positions
---@param labels? string[]  the texts
---@return utils.plot.Axes self
function Axes:set_xticks(ticks, labels) return set_ticks(self, "set_xticks", "x", ticks, labels) end

--- Sets the tick marks of the y axis, and optionally their texts.
---@param ticks number[]|Tensor  the positions
---@param labels? string[]  the texts
---@return utils.plot.Axes self
function Axes:set_yticks(ticks, labels) return set_ticks(self, "set_yticks", "y", ticks, labels) end

local corners <const> = {best = true, ["upper right"] = true, ["upper left"] = true,
   ["lower left"] = true, ["lower right"] = true}

local take_legend = args.signature [[utils.plot.Axes.legend(loc: string = 'best')]]

--- Shows a legend with the labels of all lines, points, bars and areas that have one.
---@param options? {loc: string}  loc: "best", "upper right", "upper left", "lower left" or
--- "lower right"
---@return utils.plot.Axes self
function Axes:legend(...)
   local a = take_legend(...)
   if not corners[a.loc] then
      args.refuse(who .. "legend", "loc", '"best" or a corner such as "upper right"', a.loc)
   end
   self.legend_at = a.loc
   return self
end

--- Shows or hides grid lines at the tick marks of both axes.
---@param on? boolean  true by default
---@return utils.plot.Axes self
function Axes:grid(on)
   if on ~= nil and type(on) ~= "boolean" then
      args.refuse(who .. "grid", "on", "a boolean", on)
   end
   self.has_grid = on ~= false
   return self
end

function Axes:__tostring()
   return ("utils.plot.Axes(%d artists%s)"):format(#self.artists,
      self.title ~= "" and ", " .. self.title or "")
end

return Axes
