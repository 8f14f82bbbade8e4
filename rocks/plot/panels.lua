-- panels.lua - draws the figures of utils.plot.subplots. It places their axes, chooses ranges and
-- tick marks, and converts artists (lines, points, bars, images ...) to shapes on a canvas.

local axes_marks = require "tlua.plot.marks"
local canvas = require "tlua.plot.canvas"
local contours = require "tlua.plot.contours"
local space = require "tlua.plot.space"
local values = require "tlua.plot.values"

local M = {}

local ink <const>, pale <const> = 0x333333, 0xDDDDDD

-- Ranges --------------------------------------------------------------------------------------

-- Returns the range of an axis. It is the range that the user has set, or else the range of all
-- artists with a margin.
local function range_of(ax, which)
   local limits = ax.limits[which]
   if limits then return limits[1], limits[2] end
   local logarithmic = ax.scale[which] == "log"
   local low, high, tight, floor = nil, nil, true, false
   for _, artist in ipairs(ax.artists) do
      local a, b = values.range(artist[which .. "s"] or {}, logarithmic)
      if a then
         low, high = math.min(low or a, a), math.max(high or b, b)
         tight = tight and artist["tight_" .. which] or false
         floor = floor or which == "y" and artist.floor
      end
   end
   if not low then return logarithmic and 1 or 0, logarithmic and 10 or 1 end
   if logarithmic then
      if low == high then return low / 2, high * 2 end
      local factor = tight and 1 or (high / low) ^ 0.05
      return math.max(low / factor, 1e-320), math.min(high * factor, 1.7e308)
   end
   if low == high then
      local more = low == 0 and 0.5 or math.abs(low) * 0.05
      return low - more, high + more
   end
   local margin = tight and 0 or high / 20 - low / 20
   local from = floor and low == 0 and 0 or math.max(low - margin, -1.7e308)
   local to = floor and high == 0 and 0 or math.min(high + margin, 1.7e308)
   if ax.upside_down and which == "y" then from, to = to, from end
   return from, to
end

-- Returns an axis, a table with three fields. The function `place` maps a value to its position,
-- from 0 to 1, within the axis' range; it maps a value that cannot be drawn to nil. `marks` lists
-- the tick marks. `minor` lists the positions of tick marks without text.
local function axis_of(ax, which, most)
   local low, high = range_of(ax, which)
   local logarithmic = ax.scale[which] == "log"
   local turned = low > high
   if turned then low, high = high, low end
   local from, to = low, high
   if logarithmic then from, to = math.log(low, 10), math.log(high, 10) end
   local span = to / 2 - from / 2 -- half the span, because the whole span could overflow
   local function place(value)
      if value - value ~= 0 then return nil end
      if logarithmic then
         if value <= 0 then return nil end
         value = math.log(value, 10)
      end
      local share = (value / 2 - from / 2) / span
      if share - share ~= 0 then return nil end
      share = math.max(-1e5, math.min(1e5, share))
      return turned and 1 - share or share
   end
   local marks = {}
   if ax.ticks[which] then
      for _, mark in ipairs(ax.ticks[which]) do
         local at = place(mark.value)
         if at and at >= -1e-9 and at <= 1 + 1e-9 then
            marks[#marks + 1] = {at = at, text = mark.text}
         end
      end
   elseif high - low < 1e300 and high - low > 1e-12 * math.max(math.abs(low), math.abs(high)) then
      for _, mark in ipairs(axes_marks.axis(low, high, most, logarithmic).marks) do
         marks[#marks + 1] = {at = turned and 1 - mark.at or mark.at, text = mark.text}
      end
   else
      marks = {{at = turned and 1 or 0, text = ("%.6g"):format(low)},
         {at = turned and 0 or 1, text = ("%.6g"):format(high)}}
   end
   local minor = {}
   if logarithmic and to - from < 8 then
      for e = math.floor(from), math.ceil(to) do
         for k = 2, 9 do
            local at = place(k * 10.0 ^ e)
            if at and at > 0 and at < 1 then minor[#minor + 1] = at end
         end
      end
   end
   return {place = place, marks = marks, minor = minor, low = low, high = high,
      floor = logarithmic and low or nil}
end

-- Shapes of artists ---------------------------------------------------------------------------

local function marker_points(marker, x, y, r)
   if marker == "s" then return {x - r, y - r, x + r, y - r, x + r, y + r, x - r, y + r} end
   if marker == "D" then return {x, y - r * 1.3, x + r * 1.3, y, x, y + r * 1.3, x - r * 1.3, y} end
   if marker == "^" or marker == "v" then
      local up = marker == "^" and r or -r
      return {x, y - up * 1.2, x + r * 1.1, y + up * 0.8, x - r * 1.1, y + up * 0.8}
   end
   local n = math.max(8, math.min(32, math.floor(r * 4)))
   local points = {}
   for i = 0, n - 1 do
      local angle = 2 * math.pi * i / n
      points[2 * i + 1], points[2 * i + 2] = x + r * math.cos(angle), y + r * math.sin(angle)
   end
   return points
end

local function draw_marker(out, marker, x, y, size, style)
   local r = marker == "." and size / 4 or size / 2
   if marker == "x" or marker == "+" then
      local line = {colour = style.colour, width = 1.5, alpha = style.alpha, clip = style.clip}
      local d = marker == "x" and r * 0.8 or 0
      if marker == "x" then
         out:line({x - d, y - d, x + d, y + d}, line)
         out:line({x - d, y + d, x + d, y - d}, line)
      else
         out:line({x - r, y, x + r, y}, line)
         out:line({x, y - r, x, y + r}, line)
      end
      return
   end
   local round = marker == "o" or marker == "."
   out:area(marker_points(marker, x, y, r), style, round and {x, y, r})
end

-- Removes points of a long line that make no visible difference. Of successive points in the same
-- column of pixels, only the first, the lowest, the highest and the last are kept.
local function thin(points, clip)
   if #points <= 8 * (clip[3] - clip[1]) then return points end
   local kept = {}
   local column, first, lowest, highest, last
   local function put(i)
      local n = #kept
      if n == 0 or kept[n - 1] ~= points[i] or kept[n] ~= points[i + 1] then
         kept[n + 1], kept[n + 2] = points[i], points[i + 1]
      end
   end
   local function flush()
      if not column then return end
      local order = {first, lowest, highest, last}
      table.sort(order)
      for _, i in ipairs(order) do put(i) end
   end
   for i = 1, #points, 2 do
      local at = points[i] // 1
      if at ~= column then
         flush()
         column, first, lowest, highest = at, i, i, i
      end
      if points[i + 1] < points[lowest + 1] then lowest = i end
      if points[i + 1] > points[highest + 1] then highest = i end
      last = i
   end
   flush()
   return kept
end

local draw = {}

-- Calls visit(points) for each part of a line between gaps.
local function each_part(artist, map, visit)
   local points = {}
   for i = 1, #artist.ys do
      local x, y = map(artist.xs[i], artist.ys[i], artist.zs and artist.zs[i])
      if x then
         points[#points + 1], points[#points + 2] = x, y
      elseif #points > 0 then
         visit(points)
         points = {}
      end
   end
   if #points > 0 then visit(points) end
end

function draw.line(out, artist, view)
   each_part(artist, view.map, function(points)
      if artist.dash ~= "none" then
         out:line(thin(points, view.clip), {colour = artist.colour, width = artist.width,
            dash = artist.dash or nil, alpha = artist.alpha, clip = view.clip})
      end
      if artist.marker then
         local seen = {}
         for i = 1, #points, 2 do
            local key = points[i] // 1 << 20 | points[i + 1] // 1 & 0xFFFFF
            if #points < 20000 or not seen[key] then
               seen[key] = true
               draw_marker(out, artist.marker, points[i], points[i + 1], artist.size,
                  {colour = artist.colour, alpha = artist.alpha, clip = view.clip})
            end
         end
      end
   end)
end

local function shade(artist, value)
   if value ~= value then return nil end
   local low, high = artist.vmin, artist.vmax
   if artist.log then
      if value <= 0 then return nil end
      value, low, high = math.log(value), math.log(low), math.log(high)
   end
   if high == low then return artist.map(0.5) end
   if value == math.huge then return artist.map(1) end
   if value == -math.huge then return artist.map(0) end
   return artist.map((value / 2 - low / 2) / (high / 2 - low / 2))
end

function draw.points(out, artist, view)
   local list, seen = {}, {}
   -- If there are many points, only one point is drawn on each pixel.
   local many = #artist.xs > 20000
   for i = 1, #artist.xs do
      local x, y, depth = view.map(artist.xs[i], artist.ys[i], artist.zs and artist.zs[i])
      local size = artist.sizes[i]
      local colour = artist.colour
      if artist.shades then colour = shade(artist, artist.shades[i]) end
      if x and colour and size - size == 0 and size >= 0 then
         local key = many and x // 1 << 20 | y // 1 & 0xFFFFF
         if not many or not seen[key] then
            if many then seen[key] = true end
            list[#list + 1] = {x, y, depth or 0, size ^ 0.5, colour}
         end
      end
   end
   if artist.zs then table.sort(list, function(a, b) return a[3] < b[3] end) end
   for _, p in ipairs(list) do
      draw_marker(out, artist.marker, p[1], p[2], p[4] * 1.2,
         {colour = p[5], alpha = artist.alpha, clip = view.clip})
   end
end

function draw.errors(out, artist, view)
   local style = {colour = artist.colour, width = artist.width, alpha = artist.alpha,
      clip = view.clip}
   local function bar(x0, y0, x1, y1, dx, dy)
      out:line({x0, y0, x1, y1}, style)
      if artist.cap <= 0 then return end
      out:line({x0 - dx, y0 - dy, x0 + dx, y0 + dy}, style)
      out:line({x1 - dx, y1 - dy, x1 + dx, y1 + dy}, style)
   end
   for i = 1, #artist.x do
      local x, y = artist.x[i], artist.y[i]
      if artist.yerr then
         local px, top = view.map(x, y + artist.yerr.above[i])
         local _, bottom = view.map(x, view.lift(y - artist.yerr.below[i]))
         if px and bottom then bar(px, bottom, px, top, artist.cap, 0) end
      end
      if artist.xerr then
         local right, py = view.map(x + artist.xerr.above[i], y)
         local left = view.map(view.lift_x(x - artist.xerr.below[i]), y)
         if right and left then bar(left, py, right, py, 0, artist.cap) end
      end
   end
   draw.line(out, {xs = artist.x, ys = artist.y, colour = artist.colour, width = artist.width,
      dash = artist.dash, alpha = artist.alpha, marker = artist.marker, size = artist.size}, view)
end

function draw.between(out, artist, view)
   local upper, lower = {}, {}
   local function flush()
      if #upper >= 4 then
         local points = thin(upper, view.clip)
         points = table.move(points, 1, #points, 1, {})
         local back = thin(lower, view.clip)
         for i = #back - 1, 1, -2 do
            points[#points + 1], points[#points + 2] = back[i], back[i + 1]
         end
         out:area(points, {colour = artist.colour, alpha = artist.alpha, clip = view.clip})
      end
      upper, lower = {}, {}
   end
   for i = 1, #artist.xs do
      local x, a = view.map(artist.xs[i], view.lift(artist.y1[i]))
      local _, b = view.map(artist.xs[i], view.lift(artist.y2[i]))
      if x and a and b then
         upper[#upper + 1], upper[#upper + 2] = x, a
         lower[#lower + 1], lower[#lower + 2] = x, b
      else
         flush()
      end
   end
   flush()
end

function draw.bars(out, artist, view)
   local boxes, columns = {}, {}
   local many = #artist.bars > 4 * (view.clip[3] - view.clip[1]) and not artist.edge
   for _, bar in ipairs(artist.bars) do
      local left, bottom = view.map(bar[1], view.lift(bar[2]))
      local right, top = view.map(bar[3], view.lift(bar[4]))
      if left and right and bar[2] ~= bar[4] then
         local box = {math.min(left, right), math.min(top, bottom), math.max(left, right),
            math.max(top, bottom)}
         local other = many and columns[box[1] // 1]
         -- If there are very many bars, all bars in the same column of pixels are drawn as one bar.
         if other then
            for i = 1, 4 do other[i] = (i < 3 and math.min or math.max)(other[i], box[i]) end
         else
            boxes[#boxes + 1], columns[box[1] // 1] = box, box
         end
      end
   end
   for _, box in ipairs(boxes) do
      out:box(box[1], box[2], box[3], box[4], {colour = artist.colour, alpha = artist.alpha,
         edge = artist.edge, clip = view.clip})
   end
   if artist.errors then draw.errors(out, artist.errors, view) end
end

function draw.boxes(out, artist, view)
   local style = {colour = ink, width = 1.2, clip = view.clip}
   for _, box in ipairs(artist.boxes) do
      local half = box.width / 2
      local function line(x0, y0, x1, y1, with)
         local a, b = view.map(x0, y0)
         local c, d = view.map(x1, y1)
         if a and c then out:line({a, b, c, d}, with or style) end
      end
      local at = box.at
      line(at - half, box.q1, at + half, box.q1)
      line(at - half, box.q3, at + half, box.q3)
      line(at - half, box.q1, at - half, box.q3)
      line(at + half, box.q1, at + half, box.q3)
      line(at - half, box.median, at + half, box.median,
         {colour = 0xD6540E, width = 2, clip = view.clip})
      line(at, box.q1, at, box.low)
      line(at, box.q3, at, box.high)
      line(at - half / 2, box.low, at + half / 2, box.low)
      line(at - half / 2, box.high, at + half / 2, box.high)
      for _, value in ipairs(box.fliers) do
         local x, y = view.map(at, value)
         if x then
            out:area(marker_points("o", x, y, 2.5),
               {colour = 0xFFFFFF, edge = ink, clip = view.clip})
         end
      end
   end
end

local function reverse(list)
   for i = 1, #list // 2 do list[i], list[#list + 1 - i] = list[#list + 1 - i], list[i] end
end

function draw.image(out, artist, view)
   local matrix = artist.matrix
   local rows, columns = matrix:size(1), matrix:size(2)
   -- Chooses at most `most` out of n rows or columns, which are equally spaced, and returns their
   -- numbers.
   local function chosen(n, most)
      local list = {}
      local k = math.min(n, math.max(1, math.floor(most)))
      for i = 1, k do list[i] = math.floor((i - 0.5) * n / k) + 1 end
      return list
   end
   local clip = view.clip
   local ys, xs = chosen(rows, (clip[4] - clip[2]) * 2), chosen(columns, (clip[3] - clip[1]) * 2)
   local x0, y0 = view.map(artist.left, artist.low)
   local x1, y1 = view.map(artist.right, artist.high)
   if not (x0 and x1) then return end
   local flip_x = x0 > x1
   local cells = {}
   for i, row in ipairs(ys) do
      local line, source = {}, matrix[row]:tolist()
      for k, column in ipairs(xs) do line[k] = shade(artist, source[column]) or -1 end
      if flip_x then
         reverse(line)
      end
      cells[i] = line
   end
   -- With origin = "upper", row 1 is at the top of the extent; otherwise it is at the bottom.
   local first_at = artist.upper and artist.top or artist.bottom
   local first_on_top = (first_at == artist.high) == (y1 < y0)
   if not first_on_top then
      reverse(cells)
   end
   out:image(math.min(x0, x1), math.min(y0, y1), math.max(x0, x1), math.max(y0, y1), cells,
      {clip = view.clip})
end

-- Returns the value of the axis at a position in the grid's rows or columns. Positions count from 1
-- and may be fractions.
local function between(list, at)
   local i = math.max(1, math.min(math.floor(at), #list - 1))
   return list[i] + (list[i + 1] - list[i]) * (at - i)
end

function draw.contour(out, artist, view)
   for _, level in ipairs(artist.levels) do
      local colour = artist.colour or shade(artist, level)
      for _, line in ipairs(contours.lines(artist.rows, level)) do
         local points = {}
         for i = 1, #line, 2 do
            local x, y = view.map(between(artist.x, line[i]), between(artist.y, line[i + 1]))
            if x then points[#points + 1], points[#points + 2] = x, y end
         end
         out:line(points, {colour = colour, width = artist.width, clip = view.clip})
      end
   end
end

-- Returns the position of an axis' value in the grid's rows or columns, as a fraction. Returns nil
-- if the value is outside the grid.
local function grid_position(list, value)
   local low, high = 1, #list
   if not (value >= list[1] and value <= list[high]) then return nil end
   while high - low > 1 do
      local middle = (low + high) // 2
      if value >= list[middle] then low = middle else high = middle end
   end
   return low + (value - list[low]) / (list[high] - list[low])
end

function draw.bands(out, artist, view)
   local x0, y0 = view.map(artist.x[1], artist.y[1])
   local x1, y1 = view.map(artist.x[#artist.x], artist.y[#artist.y])
   if not (x0 and x1) then return end
   local clip = view.clip
   local left, right = math.max(math.min(x0, x1), clip[1]), math.min(math.max(x0, x1), clip[3])
   local top, bottom = math.max(math.min(y0, y1), clip[2]), math.min(math.max(y0, y1), clip[4])
   local columns, rows = math.floor(right - left), math.floor(bottom - top)
   if columns < 1 or rows < 1 then return end
   local levels, colours_of = artist.levels, {}
   for i = 1, #levels - 1 do
      colours_of[i] = shade(artist, levels[i] / 2 + levels[i + 1] / 2)
   end
   local cells, at_x = {}, {}
   for k = 1, columns do
      at_x[k] = grid_position(artist.x, view.value_x(left + k - 0.5)) or false
   end
   for i = 1, rows do
      local row, at_y = {}, grid_position(artist.y, view.value_y(top + i - 0.5))
      for k = 1, columns do
         local h = at_y and at_x[k] and contours.height(artist.rows, at_x[k], at_y)
         local band = -1
         if h then
            local low, high = 1, #levels
            if h >= levels[1] and h <= levels[high] then
               while high - low > 1 do
                  local middle = (low + high) // 2
                  if h >= levels[middle] then low = middle else high = middle end
               end
               band = colours_of[low]
            end
         end
         row[k] = band
      end
      cells[i] = row
   end
   out:image(left, top, left + columns, top + rows, cells, {clip = view.clip})
end

function draw.straight(out, artist, view)
   local clip = view.clip
   local x, y
   if artist.which == "x" then x = view.map_x(artist.at) else y = view.map_y(artist.at) end
   if not (x or y) then return end
   out:line(x and {x, clip[2], x, clip[4]} or {clip[1], y, clip[3], y}, {colour = artist.colour,
      width = artist.width, dash = artist.dash ~= "none" and artist.dash or nil, clip = clip})
end

function draw.note(out, artist, view)
   local x, y = view.map(artist.x, artist.y)
   if not x then return end
   if artist.target then
      local tx, ty = view.map(artist.target[1], artist.target[2])
      if tx then
         local width = canvas.text_width(artist.text, artist.size)
         local from_x = math.max(x, math.min(x + width, tx))
         local from_y = ty > y and y + artist.size * 0.7 or y - artist.size * 0.7
         local dx, dy = tx - from_x, ty - from_y
         local length = (dx * dx + dy * dy) ^ 0.5
         if length > 8 then
            dx, dy = dx / length, dy / length
            out:line({from_x, from_y, tx - dx * 5, ty - dy * 5}, {colour = artist.colour})
            out:area({tx, ty, tx - dx * 8 - dy * 3.5, ty - dy * 8 + dx * 3.5,
               tx - dx * 8 + dy * 3.5, ty - dy * 8 - dx * 3.5}, {colour = artist.colour})
         end
      end
   end
   out:text(x, y, artist.text, {size = artist.size, anchor = artist.anchor, colour = artist.colour})
end

-- Frames --------------------------------------------------------------------------------------

local function legend_entries(ax)
   local list = {}
   for _, artist in ipairs(ax.artists) do
      if artist.label and artist.label ~= "" then list[#list + 1] = artist end
   end
   return list
end

local function legend_boxes(clip, width, height)
   local gap = 8
   local left, right = clip[1] + gap, clip[3] - gap - width
   local top, bottom = clip[2] + gap, clip[4] - gap - height
   return {["upper right"] = {right, top}, ["upper left"] = {left, top},
      ["lower left"] = {left, bottom}, ["lower right"] = {right, bottom}}
end

-- Returns the corner in which the legend covers the fewest points.
local function best_corner(ax, view, boxes, width, height)
   local best, least
   for _, name in ipairs {"upper right", "upper left", "lower right", "lower left"} do
      local box, covered = boxes[name], 0
      for _, artist in ipairs(ax.artists) do
         local n = #(artist.ys or {})
         local step = math.max(1, n // 500)
         for i = 1, n, step do
            local x, y = view.map(artist.xs[i] or 0 / 0, artist.ys[i], artist.zs and artist.zs[i])
            if x and x > box[1] - 6 and x < box[1] + width + 6 and y > box[2] - 6
               and y < box[2] + height + 6 then
               covered = covered + 1
            end
         end
      end
      if not least or covered < least then best, least = box, covered end
   end
   return best
end

local function draw_legend(out, ax, view)
   local entries = legend_entries(ax)
   if #entries == 0 then return end
   local width = 0
   for _, artist in ipairs(entries) do
      width = math.max(width, canvas.text_width(artist.label, 11))
   end
   width = width + 46
   local height = 17 * #entries + 8
   local boxes = legend_boxes(view.clip, width, height)
   local box = boxes[ax.legend_at] or best_corner(ax, view, boxes, width, height)
   out:box(box[1], box[2], box[1] + width, box[2] + height, {colour = 0xFFFFFF, alpha = 0.85,
      edge = 0xCCCCCC})
   for i, artist in ipairs(entries) do
      local x, y = box[1] + 8, box[2] + 17 * i - 5
      local colour = artist.colour or 0x808080
      if artist.kind == "bars" or artist.kind == "between" then
         out:box(x, y - 5, x + 24, y + 5, {colour = colour, alpha = artist.alpha,
            edge = artist.edge})
      elseif artist.kind ~= "points" and artist.dash ~= "none" then
         out:line({x, y, x + 24, y}, {colour = colour, width = artist.width,
            dash = artist.dash or nil, alpha = artist.alpha})
      end
      if artist.marker then
         draw_marker(out, artist.marker, x + 12, y, artist.size or 7, {colour = colour,
            alpha = artist.alpha})
      end
      out:text(x + 30, y, artist.label, {size = 11})
   end
end

-- Draws axes with two dimensions into a rectangle. `left` is the left edge of the tick marks'
-- texts.
local function draw_flat(out, ax, left, top, right, bottom)
   local y_axis = axis_of(ax, "y", math.max(2, (bottom - top) // 45))
   local widest = 0
   for _, mark in ipairs(y_axis.marks) do
      widest = math.max(widest, canvas.text_width(mark.text, 11))
   end
   left = math.min(left + math.max(26, widest), right - 20)
   local x_axis = axis_of(ax, "x", math.max(2, (right - left) // 50))
   if ax.equal then -- with this option, a unit has the same length on both axes
      local wide, high = x_axis.high - x_axis.low, y_axis.high - y_axis.low
      local scale = math.min((right - left) / wide, (bottom - top) / high)
      local dx, dy = (right - left - wide * scale) / 2, (bottom - top - high * scale) / 2
      left, right, top, bottom = left + dx, right - dx, top + dy, bottom - dy
   end
   local clip = {left, top, right, bottom}
   local view = {clip = clip, upside_down = ax.upside_down}
   function view.map_x(x)
      local share = x_axis.place(x)
      return share and left + share * (right - left)
   end
   function view.map_y(y)
      local share = y_axis.place(y)
      return share and bottom - share * (bottom - top)
   end
   function view.map(x, y)
      local px, py = view.map_x(x), view.map_y(y)
      if px and py then return px, py end
   end
   -- On a logarithmic axis, an area that reaches to zero or below ends just below the lower edge.
   function view.lift(y)
      return y_axis.floor and y < y_axis.floor and y_axis.floor * 0.999 or y
   end
   function view.lift_x(x)
      return x_axis.floor and x < x_axis.floor and x_axis.floor * 0.999 or x
   end
   local function inverse(axis, which, share)
      local low, high = axis.low, axis.high
      if ax.scale[which] == "log" then return low * (high / low) ^ share end
      return low + (high - low) * share
   end
   local x_turned = (x_axis.place(x_axis.low) or 0) > 0.5
   local y_turned = (y_axis.place(y_axis.low) or 0) > 0.5
   function view.value_x(px)
      local share = (px - left) / (right - left)
      return inverse(x_axis, "x", x_turned and 1 - share or share)
   end
   function view.value_y(py)
      local share = (bottom - py) / (bottom - top)
      return inverse(y_axis, "y", y_turned and 1 - share or share)
   end

   if ax.has_grid then
      for _, mark in ipairs(x_axis.marks) do
         local x = left + mark.at * (right - left)
         out:line({x, top, x, bottom}, {colour = pale})
      end
      for _, mark in ipairs(y_axis.marks) do
         local y = bottom - mark.at * (bottom - top)
         out:line({left, y, right, y}, {colour = pale})
      end
   end
   for _, artist in ipairs(ax.artists) do draw[artist.kind](out, artist, view) end
   local frame = {colour = ink, width = 1}
   out:line({left, top, right, top, right, bottom, left, bottom, left, top}, frame)
   local free = -math.huge
   for _, mark in ipairs(x_axis.marks) do
      local x = left + mark.at * (right - left)
      out:line({x, bottom, x, bottom + 4}, frame)
      local half = canvas.text_width(mark.text, 11) / 2
      if x - half > free + 4 then
         out:text(x, bottom + 13, mark.text, {size = 11, anchor = "middle"})
         free = x + half
      end
   end
   for _, mark in ipairs(y_axis.marks) do
      local y = bottom - mark.at * (bottom - top)
      out:line({left - 4, y, left, y}, frame)
      out:text(left - 7, y, mark.text, {size = 11, anchor = "end"})
   end
   for _, at in ipairs(x_axis.minor) do
      local x = left + at * (right - left)
      out:line({x, bottom, x, bottom + 2}, frame)
   end
   for _, at in ipairs(y_axis.minor) do
      local y = bottom - at * (bottom - top)
      out:line({left - 2, y, left, y}, frame)
   end
   out:text((left + right) / 2, top - 12, ax.title, {size = 13, anchor = "middle"})
   out:text((left + right) / 2, bottom + 30, ax.labels.x or "", {size = 12, anchor = "middle"})
   out:text(left - widest - 17, (top + bottom) / 2, ax.labels.y or "", {size = 12,
      anchor = "middle", turned = true})
   if ax.legend_at then draw_legend(out, ax, view) end
   return clip
end

-- Draws the colour bar of an artist to the right of the artist's axes.
local function draw_colorbar(out, bar, clip)
   local artist = bar.artist
   local left, right = clip[3] + 14, clip[3] + 28
   local top, bottom = clip[2], clip[4]
   local cells = {}
   local steps = artist.levels and artist.kind == "bands" and #artist.levels - 1 or 128
   for i = 1, steps do
      local share = 1 - (i - 0.5) / steps
      if artist.levels and artist.kind == "bands" then
         local k = steps + 1 - i
         cells[i] = {shade(artist, artist.levels[k] / 2 + artist.levels[k + 1] / 2) or -1}
      else
         cells[i] = {artist.map(share)}
      end
   end
   out:image(left, top, right, bottom, cells)
   out:line({left, top, right, top, right, bottom, left, bottom, left, top}, {colour = ink})
   local low, high = artist.vmin, artist.vmax
   local widest, marks = 0, {}
   if artist.kind == "bands" then
      local every = math.max(1, (steps + 9) // 10)
      for i = 1, steps + 1, every do
         marks[#marks + 1] = {at = (i - 1) / steps, text = ("%.3g"):format(artist.levels[i])}
      end
   elseif low < high and high - low < 1e300 then
      marks = axes_marks.axis(low, high, math.max(2, (bottom - top) // 40), artist.log).marks
   else
      marks = {{at = 0.5, text = ("%.4g"):format(low)}}
   end
   for _, mark in ipairs(marks) do
      local y = bottom - mark.at * (bottom - top)
      out:line({right, y, right + 3, y}, {colour = ink})
      out:text(right + 6, y, mark.text, {size = 11})
      widest = math.max(widest, canvas.text_width(mark.text, 11))
   end
   out:text(right + widest + 18, (top + bottom) / 2, bar.label, {size = 12, anchor = "middle",
      turned = true})
end

--- Draws a figure on a canvas.
---@param figure utils.plot.Subplots
---@return utils.plot.Canvas
function M.canvas(figure)
   local out = canvas.new(figure.width, figure.height)
   local top = 4
   if figure.heading ~= "" then
      out:text(figure.width / 2, 18, figure.heading, {size = 16, anchor = "middle"})
      top = 30
   end
   local wide, high = figure.width / figure.columns, (figure.height - top) / figure.rows
   for i, ax in ipairs(figure.axes) do
      local column, row = (i - 1) % figure.columns, (i - 1) // figure.columns
      local left, upper = column * wide, top + row * high
      local bar = figure.colorbars[ax]
      local room = 0
      if bar then room = bar.label ~= "" and 96 or 78 end
      if ax.projection == "3d" then
         local view = space.draw(out, ax, {left + 8, upper + 22, left + wide - 8 - room,
            upper + high - 8})
         for _, artist in ipairs(ax.artists) do draw[artist.kind](out, artist, view) end
         out:text(left + (wide - room) / 2, upper + 14, ax.title, {size = 13, anchor = "middle"})
         if ax.legend_at then draw_legend(out, ax, view) end
         if bar then draw_colorbar(out, bar, {0, upper + high * 0.2, left + wide - room,
            upper + high * 0.8}) end
      else
         local clip = draw_flat(out, ax, left + (ax.labels.y and 32 or 16),
            upper + (ax.title ~= "" and 26 or 12), left + wide - 14 - room,
            upper + high - (ax.labels.x and 46 or 28))
         if bar then draw_colorbar(out, bar, clip) end
      end
   end
   return out
end

--- Returns the figure as SVG.
function M.svg(figure) return M.canvas(figure):svg() end

--- Returns the figure as the bytes of a PNG file.
function M.png(figure) return M.canvas(figure):png() end

--- Returns a text that lists the figure's contents, because text cannot show the drawings.
function M.text(figure)
   local lines = {("figure of %d x %d drawings, %d x %d pixels; save(path) writes SVG or PNG")
      :format(figure.rows, figure.columns, figure.width, figure.height)}
   for i, ax in ipairs(figure.axes) do
      local names = {}
      for _, artist in ipairs(legend_entries(ax)) do names[#names + 1] = artist.label end
      lines[#lines + 1] = ("%d: %s%d shown%s"):format(i, ax.title ~= "" and ax.title .. ", " or "",
         #ax.artists, #names > 0 and ": " .. table.concat(names, ", ") or "")
   end
   return table.concat(lines, "\n")
end

return M
