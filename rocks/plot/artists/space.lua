-- space.lua - methods of Axes that draw in three dimensions.

local args = require "tlua.args"
local common = require "tlua.plot.artists.common"
local torch = require "tlua"
local values = require "tlua.plot.values"

local who <const> = common.who

---@class utils.plot.Axes
local Axes = {}

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
--- cmap: string, vmin: number, vmax: number}  as in scatter
---@return table points  for figure:colorbar
function Axes:scatter3D(...)
   local title = who .. "scatter3D"
   local a = take_scatter3(...)
   common.check_space(self, "scatter3D")
   local x, y, z = triple(title, a)
   common.check_alpha(title, a.alpha)
   local artist = common.point_colours(self, title, a, #x)
   artist.kind, artist.xs, artist.ys, artist.zs, artist.label = "points", x, y, z, a.label
   artist.sizes = common.sizes(title, a.s, #x)
   artist.marker, artist.alpha = common.check_marker(title, a.marker) or "o", a.alpha
   artist.axes = self
   return common.add(self, artist, a.c == nil)
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
   common.check_space(self, "plot3D")
   local x, y, z = triple(title, a)
   common.check_alpha(title, a.alpha)
   common.check_width(title, "linewidth", a.linewidth)
   common.add(self, {kind = "line", xs = x, ys = y, zs = z, width = a.linewidth,
      colour = common.next_colour(self, title, a.color), dash = common.dash_of(title, a.linestyle),
      alpha = a.alpha, label = a.label}, a.color == nil)
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
   common.check_space(self, "view_init")
   for _, name in ipairs {"elev", "azim"} do
      if not values.finite(a[name]) then
         args.refuse(who .. "view_init", name, "a finite number", a[name])
      end
   end
   self.view = {a.elev, a.azim}
   return self
end

return Axes
