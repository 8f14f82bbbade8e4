-- space.lua - draws the frame of three-dimensional axes (projection = "3d"), and projects points.

local axes_marks = require "tlua.plot.marks"
local values = require "tlua.plot.values"

local M = {}

local function range_of(ax, which)
   local limits = ax.limits[which]
   if limits then return limits[1], limits[2] end
   local low, high
   for _, artist in ipairs(ax.artists) do
      local a, b = values.range(artist[which .. "s"] or {})
      if a then low, high = math.min(low or a, a), math.max(high or b, b) end
   end
   if not low then return 0, 1 end
   if low == high then
      local more = low == 0 and 0.5 or math.abs(low) * 0.05
      return low - more, high + more
   end
   local margin = high / 40 - low / 40
   return low - margin, high + margin
end

--- Draws the frame of the axes, and returns the view. The view's function `map` converts a point to
--- its position on the canvas and its depth.
---@param out utils.plot.Canvas
---@param ax utils.plot.Axes
---@param box number[]  left, top, right, bottom
---@return table view
function M.draw(out, ax, box)
   local elev = math.rad(ax.view and ax.view[1] or 30)
   local azim = math.rad(ax.view and ax.view[2] or -60)
   local low, high = {}, {}
   for i, which in ipairs {"x", "y", "z"} do low[i], high[i] = range_of(ax, which) end
   local sin_a, cos_a, sin_e, cos_e = math.sin(azim), math.cos(azim), math.sin(elev), math.cos(elev)
   local size = math.min(box[3] - box[1] - 70, box[4] - box[2] - 40) / 1.75
   local cx, cy = (box[1] + box[3]) / 2, (box[2] + box[4]) / 2 + 4

   -- Projects a point of a cube whose coordinates are from -0.5 to 0.5. Returns x and y on the
   -- canvas, and the depth, which is larger for nearer points.
   local function project(x, y, z)
      local right = -x * sin_a + y * cos_a
      local near = x * cos_a + y * sin_a
      return cx + right * size, cy - (z * 0.75 * cos_e - near * sin_e) * size,
         near * cos_e + z * 0.75 * sin_e
   end
   local function share(i, value)
      return (value / 2 - low[i] / 2) / (high[i] / 2 - low[i] / 2) - 0.5
   end

   -- The three faces of the cube that are behind the points are drawn. Two horizontal edges and one
   -- vertical edge get tick marks below.
   local back_x = cos_a > 0 and -0.5 or 0.5
   local back_y = sin_a > 0 and -0.5 or 0.5
   local floor = sin_e >= 0 and -0.5 or 0.5
   local function line(a, b, colour)
      local x0, y0 = project(a[1], a[2], a[3])
      local x1, y1 = project(b[1], b[2], b[3])
      out:line({x0, y0, x1, y1}, {colour = colour, width = 1})
   end
   local function face(list)
      local points = {}
      for _, p in ipairs(list) do
         local x, y = project(p[1], p[2], p[3])
         points[#points + 1], points[#points + 2] = x, y
      end
      out:area(points, {colour = 0xF4F4F4, edge = 0xBBBBBB})
   end
   local a, b = -0.5, 0.5
   face {{back_x, a, a}, {back_x, b, a}, {back_x, b, b}, {back_x, a, b}}
   face {{a, back_y, a}, {b, back_y, a}, {b, back_y, b}, {a, back_y, b}}
   face {{a, a, floor}, {b, a, floor}, {b, b, floor}, {a, b, floor}}
   local names, grey = {"x", "y", "z"}, 0xDDDDDD
   local left_x, left_y = back_x, -back_y
   if project(back_x, -back_y, 0) > project(-back_x, back_y, 0) then
      left_x, left_y = -back_x, back_y
   end
   for i = 1, 3 do
      local marks = {}
      if high[i] - low[i] < 1e300 then marks = axes_marks.axis(low[i], high[i], 5).marks end
      local ex, ey -- the middle of the edge with the tick marks
      for _, mark in ipairs(marks) do
         local at = mark.at - 0.5
         local px, py, dx, dy
         if i == 1 then
            line({at, back_y, a}, {at, back_y, b}, grey)
            line({at, a, floor}, {at, b, floor}, grey)
            px, py = project(at, -back_y, floor)
            dx, dy = 0, floor < 0 and 12 or -12
         elseif i == 2 then
            line({back_x, at, a}, {back_x, at, b}, grey)
            line({a, at, floor}, {b, at, floor}, grey)
            px, py = project(-back_x, at, floor)
            dx, dy = 0, floor < 0 and 12 or -12
         else
            line({back_x, a, at}, {back_x, b, at}, grey)
            line({a, back_y, at}, {b, back_y, at}, grey)
            px, py = project(left_x, left_y, at)
            dx, dy = -8, 0
         end
         if i < 3 then dx = px < cx and -6 or 6 end
         -- Texts near a corner, where the texts of two axes would overlap, are left out.
         if i < 3 and (mark.at < 0.04 or mark.at > 0.96) then goto next_mark end
         out:text(px + dx, py + dy, mark.text, {size = 10,
            anchor = i == 3 and "end" or px < cx and "end" or "start"})
         ::next_mark::
      end
      if i == 1 then
         ex, ey = project(0, -back_y, floor)
      elseif i == 2 then
         ex, ey = project(-back_x, 0, floor)
      else
         ex, ey = project(left_x, left_y, 0)
      end
      local label = ax.labels[names[i]]
      if label and i < 3 then
         out:text(ex + (ex < cx and -26 or 26), ey + 28, label, {size = 12, anchor = "middle"})
      elseif label then
         out:text(ex - 48, ey, label, {size = 12, anchor = "middle", turned = true})
      end
   end
   local ink = 0x666666
   line({a, -back_y, floor}, {b, -back_y, floor}, ink)
   line({-back_x, a, floor}, {-back_x, b, floor}, ink)
   line({left_x, left_y, a}, {left_x, left_y, b}, ink)

   local view = {clip = {box[1], box[2], box[3], box[4]}}
   function view.map(x, y, z)
      if not z then return nil end
      local u, v, w = share(1, x), share(2, y), share(3, z)
      if u - u ~= 0 or v - v ~= 0 or w - w ~= 0 then return nil end
      return project(math.max(-50, math.min(50, u)), math.max(-50, math.min(50, v)),
         math.max(-50, math.min(50, w)))
   end
   return view
end

return M
