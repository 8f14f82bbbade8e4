-- canvas.lua - converts shapes to an SVG document or a PNG file. A canvas is a list of shapes whose
-- coordinates are in pixels. The upper left corner is (0, 0). The field `clip` of a shape is a
-- rectangle {left, top, right, bottom}; parts of the shape outside it are not drawn.

local font = require "tlua.plot.font"
local png = require "tlua.io.png"

local M = {}

---@class utils.plot.Canvas
local Canvas = {}
Canvas.__index = Canvas

--- Makes a canvas.
---@param width integer
---@param height integer
---@return utils.plot.Canvas
function M.new(width, height)
   return setmetatable({width = width, height = height, shapes = {}}, Canvas)
end

--- Adds a line through points {x1, y1, x2, y2, ...}.
---@param points number[]
---@param style table  colour, width, dash (a list of lengths), alpha, clip
function Canvas:line(points, style)
   if #points >= 4 then
      self.shapes[#self.shapes + 1] = {kind = "line", points = points, style = style}
   end
end

--- Adds a filled polygon.
---@param points number[]
---@param style table  colour, alpha, clip, edge (a colour)
---@param circle? number[]  {x, y, radius} if the polygon approximates this circle
function Canvas:area(points, style, circle)
   if #points >= 6 then
      self.shapes[#self.shapes + 1] = {kind = "area", points = points, style = style,
         circle = circle}
   end
end

--- Adds a filled rectangle.
function Canvas:box(left, top, right, bottom, style)
   self:area({left, top, right, top, right, bottom, left, bottom}, style)
end

--- Adds a text.
---@param x number
---@param y number  the vertical middle of the text
---@param text string
---@param style table  size, anchor ("start", "middle" or "end"), colour, turned (whether the text
--- runs upwards)
function Canvas:text(x, y, text, style)
   if text == "" then return end
   self.shapes[#self.shapes + 1] = {kind = "text", x = x, y = y, text = text, style = style or {}}
end

--- Adds an image made of rectangular cells of one colour each.
---@param cells integer[][]  rows of colours; a negative number is transparent
function Canvas:image(left, top, right, bottom, cells, style)
   self.shapes[#self.shapes + 1] = {kind = "image", left = left, top = top, right = right,
      bottom = bottom, cells = cells, style = style or {}}
end

--- Returns the approximate width of a text.
---@param text string
---@param size? number
---@return number
function M.text_width(text, size)
   return (utf8.len(text) or #text) * (size or 12) * 0.58
end

-- SVG -------------------------------------------------------------------------------------------

--- Returns a text as it is written in an SVG document. A question mark stands for a character that
--- XML does not allow, and for a byte that is not valid UTF-8.
---@param text string
---@return string
function M.escaped(text)
   if not utf8.len(text) then
      local letters = font.letters(text)
      for i, letter in ipairs(letters) do
         if not utf8.len(letter) then letters[i] = "?" end
      end
      text = table.concat(letters)
   end
   return (text:gsub("[&<>\"]", {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;",
      ["\""] = "&quot;"}):gsub("[\0-\8\11\12\14-\31]", "?"))
end

local function hex(rgb) return ("#%06x"):format(rgb) end

local function short(x)
   return (("%.2f"):format(x):gsub("%.?0+$", ""))
end

local function path_of(points, closed)
   local parts = {}
   for i = 1, #points, 2 do
      parts[#parts + 1] = (i == 1 and "M" or "L") .. short(points[i]) .. " " .. short(points[i + 1])
   end
   return table.concat(parts) .. (closed and "Z" or "")
end

local function opacity(name, alpha)
   return alpha and alpha < 1 and (' %s="%s"'):format(name, short(alpha)) or ""
end

local svg_shapes = {}

function svg_shapes.line(shape)
   local s = shape.style
   local dash = s.dash and (' stroke-dasharray="%s"'):format(table.concat(s.dash, " ")) or ""
   return ('<path d="%s" fill="none" stroke="%s" stroke-width="%s" stroke-linejoin="round"%s%s/>')
      :format(path_of(shape.points), hex(s.colour), short(s.width or 1), dash,
         opacity("stroke-opacity", s.alpha))
end

function svg_shapes.area(shape)
   local s = shape.style
   local circle = shape.circle
   if circle then
      return ('<circle cx="%s" cy="%s" r="%s" fill="%s"%s/>'):format(short(circle[1]),
         short(circle[2]), short(circle[3]), hex(s.colour), opacity("fill-opacity", s.alpha))
   end
   return ('<path d="%s" fill="%s"%s%s/>'):format(path_of(shape.points, true), hex(s.colour),
      opacity("fill-opacity", s.alpha), s.edge and (' stroke="%s"'):format(hex(s.edge)) or "")
end

function svg_shapes.text(shape)
   local s = shape.style
   local size = s.size or 12
   local x, y = short(shape.x), short(shape.y)
   local turn = s.turned and (' transform="rotate(-90 %s %s)"'):format(x, y) or ""
   return ('<text x="%s" y="%s" dy="0.35em" font-size="%s" text-anchor="%s" fill="%s"%s>%s</text>')
      :format(x, y, short(size), s.anchor or "start", hex(s.colour or 0x333333), turn,
         M.escaped(shape.text))
end

local function colours_of(cells)
   local rows, clear = {}, false
   for _, row in ipairs(cells) do
      for _, rgb in ipairs(row) do clear = clear or rgb < 0 end
   end
   for y, row in ipairs(cells) do
      local bytes = {}
      for x, rgb in ipairs(row) do
         local c = rgb < 0 and 0xFFFFFF or rgb
         bytes[x] = clear and string.char(c >> 16, c >> 8 & 255, c & 255, rgb < 0 and 0 or 255)
            or string.char(c >> 16, c >> 8 & 255, c & 255)
      end
      rows[y] = table.concat(bytes)
   end
   return png.encode(#cells[1], #cells, rows, nil, true)
end

function svg_shapes.image(shape)
   return ('<image x="%s" y="%s" width="%s" height="%s" preserveAspectRatio="none" '
      .. 'style="image-rendering:pixelated" href="data:image/png;base64,%s"/>'):format(
         short(shape.left), short(shape.top), short(shape.right - shape.left),
         short(shape.bottom - shape.top), png.base64(colours_of(shape.cells)))
end

--- Returns the canvas as an SVG document.
---@return string
function Canvas:svg()
   local out = {([[<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d"
   viewBox="0 0 %d %d" font-family="sans-serif">
<rect width="100%%" height="100%%" fill="#fff"/>]]):format(self.width, self.height, self.width,
      self.height)}
   local clips, body, n, open = {}, {}, 0, nil
   for _, shape in ipairs(self.shapes) do
      local clip = shape.style.clip
      if clip ~= open then
         if open then body[#body + 1] = "</g>" end
         if clip then
            local id = clips[clip]
            if not id then
               n = n + 1
               id = ("c%d-%d-%d-%d-%d"):format(n, clip[1] // 1, clip[2] // 1, clip[3] // 1,
                  clip[4] // 1)
               clips[clip] = id
               out[#out + 1] = ('<clipPath id="%s"><rect x="%s" y="%s" width="%s" height="%s"/>'
                  .. "</clipPath>"):format(id, short(clip[1]), short(clip[2]),
                     short(clip[3] - clip[1]), short(clip[4] - clip[2]))
            end
            body[#body + 1] = ('<g clip-path="url(#%s)">'):format(id)
         end
         open = clip
      end
      body[#body + 1] = svg_shapes[shape.kind](shape)
   end
   if open then body[#body + 1] = "</g>" end
   return table.concat(out, "\n") .. "\n" .. table.concat(body, "\n") .. "\n</svg>\n"
end

-- PNG -------------------------------------------------------------------------------------------

local sub_rows <const> = 4 -- the number of sample rows within each row of pixels, for smooth edges

-- Blends a colour into the pixel `at`. The colour covers the part `share` of the pixel, from 0 to
-- 1.
local function blend(pixels, at, rgb, share)
   local old = pixels[at]
   if share >= 0.999 then
      pixels[at] = rgb
      return
   end
   local r = (old >> 16) + ((rgb >> 16) - (old >> 16)) * share
   local g = (old >> 8 & 255) + ((rgb >> 8 & 255) - (old >> 8 & 255)) * share
   local b = (old & 255) + ((rgb & 255) - (old & 255)) * share
   pixels[at] = math.floor(r + 0.5) << 16 | math.floor(g + 0.5) << 8 | math.floor(b + 0.5)
end

-- Updates row, in which row[x] is the covered share of pixel x, from 0 to 1. Adds the share of each
-- pixel that lies between the positions `from` and `to`.
local function add_span(row, from, to)
   local first, last = math.floor(from), math.floor(to)
   if first == last then
      row[first] = (row[first] or 0) + (to - from)
      return
   end
   row[first] = (row[first] or 0) + (first + 1 - from)
   for x = first + 1, last - 1 do row[x] = (row[x] or 0) + 1 end
   if to > last then row[last] = (row[last] or 0) + (to - last) end
end

local function by_x(a, b) return a[1] < b[1] end

-- Fills a list of polygons. An area that several polygons cover is filled only once.
local function fill(self, polygons, rgb, alpha, clip)
   local left, top, right, bottom = 0, 0, self.width, self.height
   if clip then
      left, top = math.max(left, clip[1]), math.max(top, clip[2])
      right, bottom = math.min(right, clip[3]), math.min(bottom, clip[4])
   end
   -- crossings[r] lists the positions at which the polygons' edges cross sample row r.
   local crossings = {}
   local first_row = math.ceil(top * sub_rows - 0.5)
   local last_row = math.ceil(bottom * sub_rows - 0.5) - 1
   local low, high = math.huge, -math.huge
   for _, points in ipairs(polygons) do
      local n = #points
      local x0, y0 = points[n - 1], points[n]
      for i = 1, n, 2 do
         local x1, y1 = points[i], points[i + 1]
         if y0 ~= y1 then
            local sign, xa, ya, xb, yb = 1, x0, y0, x1, y1
            if y0 > y1 then sign, xa, ya, xb, yb = -1, x1, y1, x0, y0 end
            local from = math.max(first_row, math.ceil(ya * sub_rows - 0.5))
            local to = math.min(last_row, math.ceil(yb * sub_rows - 0.5) - 1)
            local slope = (xb - xa) / (yb - ya)
            for r = from, to do
               local x = xa + ((r + 0.5) / sub_rows - ya) * slope
               local row = crossings[r]
               if not row then
                  row = {}
                  crossings[r] = row
               end
               row[#row + 1] = {x, sign}
            end
            if from <= to then low, high = math.min(low, from), math.max(high, to) end
         end
         x0, y0 = x1, y1
      end
   end
   if low > high then return end
   for y = low // sub_rows, high // sub_rows do
      local cover = {}
      for r = y * sub_rows, y * sub_rows + sub_rows - 1 do
         local row = crossings[r]
         if row then
            table.sort(row, by_x)
            local winding, start = 0, nil
            for _, crossing in ipairs(row) do
               if winding == 0 then start = crossing[1] end
               winding = winding + crossing[2]
               if winding == 0 then
                  local from, to = math.max(start, left), math.min(crossing[1], right)
                  if from < to then add_span(cover, from, to) end
               end
            end
         end
      end
      local base = y * self.width
      for x, amount in pairs(cover) do
         if x >= 0 and x < self.width and y >= 0 and y < self.height then
            blend(self.pixels, base + x, rgb, math.min(1, amount / sub_rows) * alpha)
         end
      end
   end
end

-- Splits a line into the dashes of its style. `dash` lists the length of a dash, the length of a
-- gap, the length of the next dash, and so on.
local function dashed(points, dash)
   local pieces, piece, at, left, on = {}, {points[1], points[2]}, 1, dash[1], true
   for i = 3, #points, 2 do
      local x0, y0, x1, y1 = points[i - 2], points[i - 1], points[i], points[i + 1]
      local length = ((x1 - x0) ^ 2 + (y1 - y0) ^ 2) ^ 0.5
      local done = 0
      while length - done > left do
         done = done + left
         local x, y = x0 + (x1 - x0) * done / length, y0 + (y1 - y0) * done / length
         if on then
            piece[#piece + 1], piece[#piece + 2] = x, y
            pieces[#pieces + 1] = piece
         end
         on, piece = not on, {x, y}
         at = at % #dash + 1
         left = dash[at]
      end
      left = left - (length - done)
      if on then piece[#piece + 1], piece[#piece + 2] = x1, y1 end
   end
   if on and #piece >= 4 then pieces[#pieces + 1] = piece end
   return pieces
end

local function stroke(self, shape)
   local s = shape.style
   local half = math.max(s.width or 1, 0.8) / 2
   local polygons = {}
   for _, points in ipairs(s.dash and dashed(shape.points, s.dash) or {shape.points}) do
      for i = 3, #points, 2 do
         local x0, y0, x1, y1 = points[i - 2], points[i - 1], points[i], points[i + 1]
         local dx, dy = x1 - x0, y1 - y0
         local length = (dx * dx + dy * dy) ^ 0.5
         if length > 0 then
            dx, dy = dx / length * half, dy / length * half
            -- Segments are made a little longer where they meet, which closes the gaps at the
            -- joints.
            local more = (i > 3 or i < #points - 1) and 0.4 or 0
            local ex, ey = dx * more, dy * more
            polygons[#polygons + 1] = {x0 - dy - ex, y0 + dx - ey, x1 - dy + ex, y1 + dx + ey,
               x1 + dy + ex, y1 - dx + ey, x0 + dy - ex, y0 - dx - ey}
         end
      end
   end
   fill(self, polygons, s.colour, s.alpha or 1, s.clip)
end

local png_shapes = {line = stroke}

function png_shapes.area(self, shape)
   local s = shape.style
   fill(self, {shape.points}, s.colour, s.alpha or 1, s.clip)
   if s.edge then
      local points = table.move(shape.points, 1, #shape.points, 1, {})
      points[#points + 1], points[#points + 2] = points[1], points[2]
      stroke(self, {points = points, style = {colour = s.edge, width = 1, clip = s.clip}})
   end
end

function png_shapes.text(self, shape)
   local s = shape.style
   local scale = (s.size or 12) >= 16 and 3 or 2
   local text = shape.text:gsub("[\xC2-\xF4][\x80-\xBF]+", "?")
   local width, height = font.measure(text) * scale, font.height * scale
   local shift = s.anchor == "middle" and width / 2 or s.anchor == "end" and width or 0
   local x0, y0 = math.floor(shape.x - shift), math.floor(shape.y - height / 2)
   if s.turned then
      x0, y0 = math.floor(shape.x - height / 2), math.floor(shape.y + shift)
   end
   font.draw(text, function(dx, dy)
      for i = 0, scale - 1 do
         for k = 0, scale - 1 do
            local a, b = dx * scale + i, dy * scale + k
            local x, y = x0 + a, y0 + b
            if s.turned then x, y = x0 + b, y0 - a end
            if x >= 0 and x < self.width and y >= 0 and y < self.height then
               self.pixels[y * self.width + x] = s.colour or 0x333333
            end
         end
      end
   end)
end

function png_shapes.image(self, shape)
   local rows, columns = #shape.cells, #shape.cells[1]
   local clip = shape.style.clip or {0, 0, self.width, self.height}
   local wide, high = shape.right - shape.left, shape.bottom - shape.top
   local top = math.max(0, math.floor(math.max(shape.top, clip[2]) + 0.5))
   local bottom = math.min(self.height, math.floor(math.min(shape.bottom, clip[4]) + 0.5))
   local left = math.max(0, math.floor(math.max(shape.left, clip[1]) + 0.5))
   local right = math.min(self.width, math.floor(math.min(shape.right, clip[3]) + 0.5))
   for y = top, bottom - 1 do
      local row = shape.cells[math.floor((y + 0.5 - shape.top) / high * rows) + 1]
      if row then
         for x = left, right - 1 do
            local rgb = row[math.floor((x + 0.5 - shape.left) / wide * columns) + 1]
            if rgb and rgb >= 0 then self.pixels[y * self.width + x] = rgb end
         end
      end
   end
end

--- Returns the canvas as the bytes of a PNG file.
---@return string
function Canvas:png()
   self.pixels = {}
   for i = 0, self.width * self.height - 1 do self.pixels[i] = 0xFFFFFF end
   for _, shape in ipairs(self.shapes) do png_shapes[shape.kind](self, shape) end
   local rows = {}
   for y = 0, self.height - 1 do
      local bytes = {}
      for x = 0, self.width - 1 do
         local rgb = self.pixels[y * self.width + x]
         bytes[x + 1] = string.char(rgb >> 16, rgb >> 8 & 255, rgb & 255)
      end
      rows[y + 1] = table.concat(bytes)
   end
   self.pixels = nil
   return png.encode(self.width, self.height, rows, nil, true)
end

return M
