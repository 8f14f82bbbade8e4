-- bars.lua - methods of Axes that draw bars, histograms and box plots.

local args = require "tlua.args"
local colours = require "tlua.plot.colours"
local common = require "tlua.plot.artists.common"
local torch = require "tlua"
local values = require "tlua.plot.values"

local who <const> = common.who

---@class utils.plot.Axes
local Axes = {}

local take_bar = args.signature [[utils.plot.Axes.bar(x: any, height: any, width: number = 0.8,
   bottom: any = 0, color: any?, label: string?, yerr: any?, capsize: number = 3,
   alpha: number = 1, edgecolor: any?)]]

--- Draws bars. If x is a list of names, the bars are at the positions 1, 2, 3 and so on, and the
--- names label the tick marks.
---@param x number[]|string[]|Tensor  the horizontal positions
---@param height number|number[]|Tensor  the heights of the bars
---@param options? {width: number, bottom: any, color: any, label: string, yerr: any,
--- capsize: number, alpha: number, edgecolor: any}  width: the width of each bar; bottom: the
--- heights at which bars begin; yerr: errors as in errorbar
---@return utils.plot.Axes self
function Axes:bar(...)
   local title = who .. "bar"
   local a = take_bar(...)
   common.check_flat(self, "bar")
   local x, names = a.x, nil
   if type(x) == "table" and type(x[1]) == "string" then
      names = {}
      for i = 1, #x do
         if type(x[i]) ~= "string" then
            args.refuse(title, ("x, value %d"):format(i), "a string, as before", x[i])
         end
         names[i] = x[i]
      end
      x = values.positions(#names)
      for i = 1, self.names and math.max(#names, #self.names) or 0 do
         if names[i] ~= self.names[i] then
            torch.raise(("%s: x, value %d: expected %s, as in the bars before, got %s"):format(
               title, i, args.describe(self.names[i]), args.describe(names[i])))
         end
      end
   end
   x = values.list(title, "x", x)
   local height = values.spread(title, "height", a.height, #x)
   local bottom = values.spread(title, "bottom", a.bottom, #x)
   common.check_alpha(title, a.alpha)
   common.check_width(title, "capsize", a.capsize)
   if not values.finite(a.width) then args.refuse(title, "width", "a finite number", a.width) end
   local yerr = common.errors_of(title, "yerr", a.yerr, #x)
   local bars, xs, ys, tops = {}, {}, {}, {}
   for i = 1, #x do
      local top = bottom[i] + height[i]
      bars[i] = {x[i] - a.width / 2, bottom[i], x[i] + a.width / 2, top}
      xs[2 * i - 1], xs[2 * i] = bars[i][1], bars[i][3]
      ys[2 * i - 1], ys[2 * i] = bottom[i], top
      tops[i] = top
   end
   common.add(self, {kind = "bars", bars = bars, xs = xs, ys = common.add_ends(ys, tops, yerr),
      floor = true, colour = common.next_colour(self, title, a.color), alpha = a.alpha,
      label = a.label, edge = a.edgecolor and colours.parse(title, "edgecolor", a.edgecolor),
      errors = yerr and {kind = "errors", x = x, y = tops, yerr = yerr, colour = 0x333333,
         width = 1.2, dash = "none", cap = a.capsize, alpha = 1}}, a.color == nil)
   if names then
      self.names = names
      self:set_xticks(values.positions(#names), names)
   end
   return self
end

local take_hist = args.signature [[utils.plot.Axes.hist(x: any, bins: any = 10, range: numbers?,
   density: boolean = false, color: any?, label: string?, alpha: number = 1,
   edgecolor: any?)]]

-- Returns the edges of a histogram's bins as a list. The option `bins` is the number of bins or the
-- list itself.
local function edges_of(title, bins, range, list)
   if type(bins) ~= "number" then
      local edges = values.list(title, "bins", bins)
      if #edges < 2 then args.refuse(title, "bins", "at least two edges", bins) end
      for i, edge in ipairs(edges) do
         if not values.finite(edge) then
            args.refuse(title, ("bins, edge %d"):format(i), "a finite number", edge)
         elseif i > 1 and edge <= edges[i - 1] then
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
   for i = 0, n do
      -- This form of the edge avoids the difference high - low, which may be infinite for large
      -- numbers.
      edges[i + 1] = high - low == math.huge and low * (1 - i / n) + high * (i / n)
         or low + (high - low) * (i / n)
   end
   edges[n + 1] = high
   return edges
end

-- Returns the number of the bin that contains a value, or nil if no bin does. The last bin includes
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

--- Draws a histogram. All values must be finite, unless `range` or a list of edges is given.
---@param x number[]|Tensor  the values
---@param options? {bins: integer|number[], range: number[], density: boolean, color: any,
--- label: string, alpha: number, edgecolor: any}  bins: the number of bins, or their edges;
--- density: whether to scale the bars to a total area of 1
---@return number[] counts
---@return number[] edges
function Axes:hist(...)
   local title = who .. "hist"
   local a = take_hist(...)
   common.check_flat(self, "hist")
   local x = a.x
   if torch.is_tensor(x) then x = x:flatten() end
   local list = values.list(title, "x", x)
   common.check_alpha(title, a.alpha)
   if a.range and type(a.bins) ~= "number" then
      torch.raise(title .. ": range: expected no range beside the edges of bins")
   end
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
   common.add(self, {kind = "bars", bars = bars, xs = edges, ys = ys, floor = true, label = a.label,
      colour = common.next_colour(self, title, a.color), alpha = a.alpha,
      edge = a.edgecolor and colours.parse(title, "edgecolor", a.edgecolor)}, a.color == nil)
   return counts, edges
end

local take_box = args.signature [[utils.plot.Axes.boxplot(x: any, labels: any?, whis: number = 1.5,
   showfliers: boolean = true, widths: number = 0.5)]]

-- Returns a quantile of sorted values, with linear interpolation. `share` is the part of the values
-- below the quantile, from 0 to 1.
local function quantile(sorted, share)
   local at = (#sorted - 1) * share + 1
   local i = math.floor(at)
   if i >= #sorted then return sorted[#sorted] end
   return sorted[i] + (sorted[i + 1] - sorted[i]) * (at - i)
end

--- Draws a box for each list of values. A box reaches from the lower to the upper quartile and has
--- a line at the median. Whiskers reach to the last values within `whis` times the distance between
--- the quartiles. Values beyond the whiskers are drawn as points.
---@param x number[]|number[][]|Tensor  a list, several lists, or a matrix, one box per column
---@param options? {labels: string[], whis: number, showfliers: boolean, widths: number}
--- labels: the texts below the boxes; showfliers: whether values beyond the whiskers are shown;
--- widths: the width of each box
---@return utils.plot.Axes self
function Axes:boxplot(...)
   local title = who .. "boxplot"
   local a = take_box(...)
   common.check_flat(self, "boxplot")
   if a.whis ~= a.whis or a.whis < 0 then
      args.refuse(title, "whis", "a number of at least 0", a.whis)
   end
   common.check_width(title, "widths", a.widths)
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
   for i = 1, #sets do
      local list = values.list(title, ("x, list %d"):format(i), sets[i])
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
      values.check_texts(title, "labels", a.labels)
   end
   common.add(self, {kind = "boxes", boxes = boxes, xs = xs, ys = ys, tight_x = true})
   local names = {}
   for i = 1, #sets do names[i] = a.labels and tostring(a.labels[i]) or tostring(i) end
   self:set_xticks(values.positions(#sets), names)
   return self
end

return Axes
