-- matrices.lua - methods of Axes that draw a matrix as colours, or as lines or areas of equal
-- height.

local args = require "tlua.args"
local colours = require "tlua.plot.colours"
local common = require "tlua.plot.artists.common"
local torch = require "tlua"
local values = require "tlua.plot.values"

local who <const> = common.who

---@class utils.plot.Axes
local Axes = {}

local take_imshow = args.signature [[utils.plot.Axes.imshow(X: any, cmap: string = 'viridis',
   vmin: number?, vmax: number?, norm: string = 'linear', origin: string = 'upper',
   aspect: string = 'equal', extent: numbers?)]]

-- Returns the two numbers to which the first and the last colour of the map belong. They are the
-- options vmin and vmax. If these are not given, they are the range of the list.
local function colour_range(title, a, list)
   if a.norm ~= "linear" and a.norm ~= "log" then
      args.refuse(title, "norm", '"linear" or "log"', a.norm)
   end
   local low, high = values.range(list, a.norm == "log")
   low, high = a.vmin or low or (a.norm == "log" and 1 or 0), a.vmax or high or 1
   common.check_colours(title, low, high)
   if a.norm == "log" and low <= 0 then
      torch.raise(("%s: vmin: expected more than 0 with norm = \"log\", got %g"):format(title, low))
   end
   return low, high
end

--- Shows a matrix as colours (a heat map). NaN is left white, and so are values that are not above
--- zero if norm = "log". Infinite values get the colours at the ends of the map. Rows and columns
--- count from 1.
---@param X number[][]|Tensor  the matrix
---@param options? {cmap: string, vmin: number, vmax: number, norm: string, origin: string,
--- aspect: string, extent: number[]}  aspect: "equal" or "auto"; extent: {left, right, bottom, top}
---@return table image  for figure:colorbar
function Axes:imshow(...)
   local title = who .. "imshow"
   local a = take_imshow(...)
   common.check_flat(self, "imshow")
   local matrix = values.matrix(title, "X", a.X, 1)
   if a.origin ~= "upper" and a.origin ~= "lower" then
      args.refuse(title, "origin", '"upper" or "lower"', a.origin)
   end
   if a.aspect ~= "equal" and a.aspect ~= "auto" then
      args.refuse(title, "aspect", '"equal" or "auto"', a.aspect)
   end
   local rows, columns = matrix:size(1), matrix:size(2)
   local extent = a.extent
   local sum = extent and #extent == 4 and extent[1] / 4 + extent[2] / 4 + extent[3] / 4
      + extent[4] / 4
   if extent and (not sum or not values.finite(sum) or extent[1] == extent[2]
         or extent[3] == extent[4]) then
      args.refuse(title, "extent", "{left, right, bottom, top}, finite numbers", extent)
   end
   extent = extent or (a.origin == "upper" and {0.5, columns + 0.5, rows + 0.5, 0.5}
      or {0.5, columns + 0.5, 0.5, rows + 0.5})
   local low, high = colour_range(title, a, matrix:flatten():tolist())
   self.equal = a.aspect == "equal"
   self.upside_down = extent[3] > extent[4]
   return common.add(self, {kind = "image", matrix = matrix, upper = a.origin == "upper",
      map = colours.map(title, a.cmap), vmin = low, vmax = high, log = a.norm == "log",
      left = math.min(extent[1], extent[2]), right = math.max(extent[1], extent[2]),
      low = math.min(extent[3], extent[4]), high = math.max(extent[3], extent[4]),
      bottom = extent[3], top = extent[4],
      xs = {extent[1], extent[2]}, ys = {extent[3], extent[4]}, tight_x = true, tight_y = true,
      axes = self})
end

-- Returns round heights that cover the range from `low` to `high`. Their distance is 1, 2, 2.5 or 5
-- times a power of ten. The smallest such distance is chosen that divides the range into at most n
-- parts.
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

-- Reads the arguments of contour and contourf, which are (Z) or (X, Y, Z). Without X and Y, rows
-- and columns count from 1.
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
      for i = 1, #levels do
         if not values.finite(levels[i]) or i > 1 and levels[i] <= levels[i - 1] then
            args.refuse(title, ("levels, value %d"):format(i),
               i > 1 and "more than the one before, and finite" or "a finite number", levels[i])
         end
      end
   end
   return {x = x, y = y, rows = z:tolist(), levels = levels, xs = {x[1], x[#x]},
      ys = {y[1], y[#y]}, tight_x = true, tight_y = true, vmin = levels[1],
      vmax = levels[#levels], map = colours.map(title, a.cmap)}
end

local take_contour = args.signature [[utils.plot.Axes.contour(X: any, Y: any?, Z: any?,
   levels: any = 8, cmap: string = 'viridis', colors: any?, linewidths: number = 1.5)]]

--- Draws lines of equal height. It is called as contour(Z) or contour(X, Y, Z), where X has the
--- positions of Z's columns and Y the positions of its rows. Grid cells with values that are not
--- finite have no lines.
---@param X number[]|number[][]|Tensor  the positions of Z's columns, or Z
---@param Y? number[]|Tensor  the positions of Z's rows
---@param Z? number[][]|Tensor  the matrix of heights
---@param options? {levels: integer|number[], cmap: string, colors: any, linewidths: number}
--- levels: the heights, or a number n: round heights then divide the range into at most n parts;
--- colors: one colour, instead of the map cmap
---@return table contours  for figure:colorbar
function Axes:contour(...)
   local title = who .. "contour"
   local a = take_contour(...)
   common.check_flat(self, "contour")
   local artist = surface(title, a)
   common.check_width(title, "linewidths", a.linewidths)
   artist.kind, artist.width, artist.axes = "contour", a.linewidths, self
   artist.colour = a.colors and colours.parse(title, "colors", a.colors)
   return common.add(self, artist)
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
   common.check_flat(self, "contourf")
   local artist = surface(title, a)
   if #artist.levels < 2 then args.refuse(title, "levels", "at least two numbers", a.levels) end
   artist.kind, artist.axes = "bands", self
   return common.add(self, artist)
end

return Axes
