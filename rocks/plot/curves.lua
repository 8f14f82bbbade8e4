-- curves.lua - draws curves in a frame with axes. The result is text with Braille characters for
-- the terminal, an SVG document, or a PNG file.

local axes = require "tlua.plot.marks"
local canvas = require "tlua.plot.canvas"
local font = require "tlua.plot.font"
local png = require "tlua.io.png"

local M = {}

-- The colours of the curves, in order. They differ in brightness too, so that they can be told
-- apart without colours.
local colours = {
   {31, 119, 180}, {214, 84, 14}, {44, 140, 60}, {148, 60, 170}, {120, 80, 50}, {20, 150, 160},
}

local function colour_of(i)
   return colours[(i - 1) % #colours + 1]
end

local function finite(x)
   return x == x and x ~= math.huge and x ~= -math.huge
end

-- Returns the range of the drawable values along one axis.
local function range(series, which, logarithmic)
   local low, high = math.huge, -math.huge
   for _, line in ipairs(series) do
      for _, value in ipairs(line[which]) do
         if finite(value) and (not logarithmic or value > 0) then
            low, high = math.min(low, value), math.max(high, value)
         end
      end
   end
   if low > high then return logarithmic and 1 or 0, logarithmic and 10 or 1 end
   if logarithmic and low == high then
      return math.max(low / 2, 1e-320), math.min(high * 2, 1.7e308)
   end
   return low, high
end

-- Calls visit(line number, x, y, first) for each point that can be drawn. Coordinates are fractions
-- of the frame's width and height. `first` is true if the point begins a part of a line. No segment
-- leads to such a point.
local function each_point(series, x_axis, y_axis, visit)
   for i, line in ipairs(series) do
      local first = true
      for k, value in ipairs(line.y) do
         local x = finite(line.x[k]) and x_axis.place(line.x[k])
         local y = finite(value) and y_axis.place(value)
         if x and y then
            visit(i, x, y, first)
            first = false
         else
            first = true
         end
      end
   end
end

local function make_axes(figure, x_marks, y_marks)
   local x_low, x_high = range(figure.series, "x", figure.log_x)
   local y_low, y_high = range(figure.series, "y", figure.log_y)
   return axes.axis(x_low, x_high, x_marks, figure.log_x),
      axes.axis(y_low, y_high, y_marks, figure.log_y)
end

-- Calls point(x, y) for each point of the line between two points with integer coordinates
-- (Bresenham's algorithm).
local function each_step(x0, y0, x1, y1, point)
   local dx, dy = math.abs(x1 - x0), -math.abs(y1 - y0)
   local sx, sy = x0 < x1 and 1 or -1, y0 < y1 and 1 or -1
   local fault = dx + dy
   while true do
      point(x0, y0)
      if x0 == x1 and y0 == y1 then return end
      local twice = 2 * fault
      if twice >= dy then fault, x0 = fault + dy, x0 + sx end
      if twice <= dx then fault, y0 = fault + dx, y0 + sy end
   end
end

local function round(x)
   return math.floor(x + 0.5)
end

-- Draws all curves on a grid of points, of which the upper left is (0, 0).
local function draw_lines(figure, x_axis, y_axis, width, height, point)
   local last_x, last_y
   each_point(figure.series, x_axis, y_axis, function(i, x, y, first)
      local px, py = round(x * (width - 1)), round((1 - y) * (height - 1))
      if first then last_x, last_y = px, py end
      each_step(last_x, last_y, px, py, function(a, b) point(i, a, b) end)
      last_x, last_y = px, py
   end)
end

-- The terminal ----------------------------------------------------------------------------------

-- dots[column][row] is the bit that this dot has in the code of a Braille character.
local dots = {[0] = {[0] = 1, 2, 4, 64}, {[0] = 8, 16, 32, 128}}

local function pad_left(text, width)
   return (" "):rep(width - utf8.len(text)) .. text
end

local function paint(text, i, coloured)
   if not coloured then return text end
   local c = colour_of(i)
   return ("\27[38;2;%d;%d;%dm%s\27[0m"):format(c[1], c[2], c[3], text)
end

--- Draws the curves as lines of text.
---@param figure utils.plot.Figure
---@param coloured boolean
---@return string
function M.text(figure, coloured)
   local columns, lines = figure.columns, figure.lines
   local x_axis, y_axis = make_axes(figure, math.max(2, columns // 12), math.max(2, lines // 3))
   local cells = {}
   draw_lines(figure, x_axis, y_axis, columns * 2, lines * 4, function(i, x, y)
      local at = (y // 4) * columns + x // 2
      local cell = cells[at] or {bits = 0}
      cell.bits, cell.owner = cell.bits | dots[x % 2][y % 4], i
      cells[at] = cell
   end)
   local labels, width = {}, 1
   for _, mark in ipairs(y_axis.marks) do
      labels[round((1 - mark.at) * (lines - 1))] = mark.text
      width = math.max(width, #mark.text)
   end
   local out = {}
   if figure.title then out[1] = (" "):rep(width + 2) .. figure.title end
   for row = 0, lines - 1 do
      local parts = {pad_left(labels[row] or "", width), labels[row] and " ┤" or " │"}
      for column = 0, columns - 1 do
         local cell = cells[row * columns + column]
         parts[#parts + 1] = cell
            and paint(utf8.char(0x2800 + cell.bits), cell.owner, coloured) or " "
      end
      out[#out + 1] = (table.concat(parts):gsub("%s+$", ""))
   end
   local ruler, below, free = {}, "", 0
   for column = 0, columns - 1 do ruler[column] = "─" end
   for _, mark in ipairs(x_axis.marks) do
      local column = round(mark.at * (columns - 1))
      local start = math.max(0, math.min(columns - #mark.text, column - #mark.text // 2))
      if start >= free then
         ruler[column] = "┬"
         below = below .. (" "):rep(start - #below) .. mark.text
         free = #below + 1
      end
   end
   out[#out + 1] = (" "):rep(width + 1) .. "└" .. table.concat(ruler, "", 0, columns - 1)
   out[#out + 1] = (" "):rep(width + 2) .. below
   local names = {}
   for i, line in ipairs(figure.series) do
      if line.name then
         local last = line.y[#line.y]
         names[#names + 1] = paint(("%s: %s"):format(line.name,
            last and ("%.4g"):format(last) or "no values"), i, coloured)
      end
   end
   if #names > 0 then out[#out + 1] = (" "):rep(width + 2) .. table.concat(names, "   ") end
   return table.concat(out, "\n")
end

-- SVG -------------------------------------------------------------------------------------------

local function hex(i)
   return ("#%02x%02x%02x"):format(table.unpack(colour_of(i)))
end

--- Draws the curves as an SVG document.
---@param figure utils.plot.Figure
---@return string
function M.svg(figure)
   local width, height = figure.width, figure.height
   local left, right, top, bottom = 64, width - 16, figure.title and 36 or 16, height - 40
   local x_axis, y_axis = make_axes(figure, width // 80, height // 50)
   local function px(x) return left + x * (right - left) end
   local function py(y) return bottom - y * (bottom - top) end
   local out = {([[<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d"
   viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="#333">
<rect width="100%%" height="100%%" fill="#fff"/>]]):format(width, height, width, height)}
   local function add(form, ...) out[#out + 1] = form:format(...) end
   if figure.title then
      add('<text x="%d" y="22" text-anchor="middle" font-size="15">%s</text>',
         (left + right) // 2, canvas.escaped(figure.title))
   end
   for _, mark in ipairs(y_axis.marks) do
      local y = py(mark.at)
      add('<path d="M%d %.1fH%d" stroke="#ddd"/>', left, y, right)
      add('<text x="%d" y="%.1f" text-anchor="end">%s</text>', left - 6, y + 4, mark.text)
   end
   for _, mark in ipairs(x_axis.marks) do
      local x = px(mark.at)
      add('<path d="M%.1f %dv5" stroke="#333"/>', x, bottom)
      add('<text x="%.1f" y="%d" text-anchor="middle">%s</text>', x, bottom + 18, mark.text)
   end
   add('<path d="M%d %dV%dH%d" fill="none" stroke="#333"/>', left, top, bottom, right)
   local paths = {}
   each_point(figure.series, x_axis, y_axis, function(i, x, y, first)
      paths[i] = paths[i] or {}
      table.insert(paths[i], ("%s%.2f %.2f"):format(first and "M" or "L", px(x), py(y)))
   end)
   for i in ipairs(figure.series) do
      if paths[i] then
         add('<path d="%s" fill="none" stroke="%s" stroke-width="1.6" stroke-linejoin="round"/>',
            table.concat(paths[i]), hex(i))
      end
   end
   local row = 0
   for i, line in ipairs(figure.series) do
      if line.name then
         local y = top + 14 + 18 * row
         add('<path d="M%d %dh20" stroke="%s" stroke-width="3"/>', right - 130, y - 4, hex(i))
         add('<text x="%d" y="%d">%s</text>', right - 104, y, canvas.escaped(line.name))
         row = row + 1
      end
   end
   out[#out + 1] = "</svg>\n"
   return table.concat(out, "\n")
end

-- PNG -------------------------------------------------------------------------------------------

-- These are indices in the palette of the PNG file. The colours of the curves follow from
-- first_line on.
local white, ink, grid, first_line = 0, 1, 2, 3

--- Draws the curves as a PNG image; returns the bytes of the file.
---@param figure utils.plot.Figure
---@return string
function M.png(figure)
   local width, height, scale = figure.width, figure.height, 2
   local left, right, top, bottom = 64, width - 16, figure.title and 36 or 16, height - 40
   local x_axis, y_axis = make_axes(figure, width // 80, height // 50)
   local cells = {}
   local function set(x, y, value)
      if x >= 0 and x < width and y >= 0 and y < height then cells[y * width + x] = value end
   end
   local function text(x, y, value)
      font.draw(value, function(dx, dy)
         for i = 0, scale - 1 do
            for k = 0, scale - 1 do set(x + dx * scale + i, y + dy * scale + k, ink) end
         end
      end)
   end
   local function measure(value) return font.measure(value) * scale end

   for _, mark in ipairs(y_axis.marks) do
      local y = round(bottom - mark.at * (bottom - top))
      for x = left, right do set(x, y, grid) end
      text(left - 8 - measure(mark.text), y - font.height, mark.text)
   end
   for x = left, right do set(x, bottom, ink) end
   for y = top, bottom do set(left, y, ink) end
   for _, mark in ipairs(x_axis.marks) do
      local x = round(left + mark.at * (right - left))
      for y = bottom, bottom + 4 do set(x, y, ink) end
      text(x - measure(mark.text) // 2, bottom + 10, mark.text)
   end
   draw_lines(figure, x_axis, y_axis, right - left + 1, bottom - top + 1, function(i, x, y)
      local value = first_line + (i - 1) % #colours
      -- lines are two pixels thick, so the pixels to the right and below are set, too
      set(left + x, top + y, value)
      set(left + x + 1, top + y, value)
      set(left + x, top + y + 1, value)
   end)
   if figure.title then text((left + right - measure(figure.title)) // 2, 12, figure.title) end
   local y = top + 6
   for i, line in ipairs(figure.series) do
      if line.name then
         for x = right - 130, right - 111 do
            for k = 3, 5 do set(x, y + k, first_line + (i - 1) % #colours) end
         end
         text(right - 104, y, line.name)
         y = y + 18
      end
   end

   local rows = {}
   for row = 0, height - 1 do
      local bytes = {}
      for x = 0, width - 1 do bytes[x + 1] = string.char(cells[row * width + x] or white) end
      rows[row + 1] = table.concat(bytes)
   end
   local palette = {"\xFF\xFF\xFF\x33\x33\x33\xDD\xDD\xDD"}
   for _, c in ipairs(colours) do palette[#palette + 1] = string.char(table.unpack(c)) end
   return png.encode(width, height, rows, table.concat(palette))
end

return M
