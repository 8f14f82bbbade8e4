-- image_display.lua - functions of the package image that arrange images in a grid, write them to
-- files for display, and draw texts and rectangles.

local tlua = require "tlua"
local args = require "tlua.args"
local torch = require "tlua.torch7.torch"
local types = require "tlua.torch7.types"
local base = require "tlua.torch7.image_base"

local M = base.image
local shape, by_name, position = base.shape, base.by_name, base.position

-- Returns the images in `input` as a list, and whether `input` is a single image.
local function images_of(name, input)
   if not types.is_tensor(input) then
      if type(input) ~= "table" or #input == 0 then
         tlua.raise(("image.%s: input: expected an image or a table of images, got %s"):format(name,
            type(input)))
      end
      for i = 1, #input do
         if not types.is_tensor(input[i]) or #shape(input[i]) < 2 or #shape(input[i]) > 3 then
            args.refuse("image." .. name, ("input[%d]"):format(i), "an image of 2 or 3 dimensions",
               input[i])
         end
      end
      return input, false
   end
   local size = shape(input)
   if #size == 2 or #size == 3 and (size[1] == 1 or size[1] == 3) then return {input}, true end
   if #size ~= 3 and #size ~= 4 then
      tlua.raise(("image.%s: input: expected 2 to 4 dimensions, got %d"):format(name, #size))
   end
   local list = {}
   for i = 1, size[1] do list[i] = input:select(1, i) end
   return list, false
end

-- Raises an error unless a number is nil or an integer of at least `least`.
local function check_whole(name, what, value, least)
   if value == nil or math.type(value) and math.tointeger(value) and value >= least then return end
   args.refuse("image." .. name, what, ("an integer of at least %d"):format(least), value)
end

local names <const> = "input padding nrow scaleeach min max symmetric saturate"

--- Arranges images in a grid with `nrow` images in each row, and scales their values to the range 0
--- to 1. The arguments are input (a table or a tensor), padding, nrow, scaleeach, min, max,
--- symmetric and saturate, in this order or by name in a table.
function M.toDisplayTensor(...)
   local o = by_name("toDisplayTensor", names, ...)
   local list, single = images_of("toDisplayTensor", o.input)
   check_whole("toDisplayTensor", "padding", o.padding, 0)
   check_whole("toDisplayTensor", "nrow", o.nrow, 1)
   local function scaled(x, low, high)
      return M.minmax {tensor = x, min = low, max = high, symm = o.symmetric,
         saturate = o.saturate ~= false}
   end
   local first = list[1]
   local float = torch.typename(first):find "Byte" and torch.FloatTensor or torch[torch.typename(
      first):match "[^.]+$"]
   local function as_float(x) return float(x:size()):copy(x) end
   if single then return scaled(as_float(first), o.min, o.max) end
   local nrow, pad = math.min(o.nrow or 6, #list), o.padding or 0
   local size = shape(first)
   local c, h, w = #size == 3 and size[1] or 1, size[#size - 1], size[#size]
   local rows = math.ceil(#list / nrow)
   local together = float(#list, c, h, w)
   for i, picture in ipairs(list) do
      local s = shape(picture)
      if #s ~= #size or s[#s] ~= w or s[#s - 1] ~= h or #s == 3 and s[1] ~= c then
         tlua.raise(("image.toDisplayTensor: input: expected images of equal sizes, image %d is %s")
            :format(i, table.concat(s, "x")))
      end
      together[i]:copy(picture)
      if o.scaleeach then together[i]:copy(scaled(together[i]:clone(), o.min, o.max)) end
   end
   if not o.scaleeach then together = scaled(together, o.min, o.max) end
   local made = float(c, rows * (h + pad) - pad, nrow * (w + pad) - pad):zero()
   for i = 1, #list do
      local y, x = (i - 1) // nrow * (h + pad), (i - 1) % nrow * (w + pad)
      made:narrow(2, y + 1, h):narrow(3, x + 1, w):copy(together[i])
   end
   return #size == 2 and made:select(1, 1) or made
end

local shown <const> = "image zoom min max legend win x y scaleeach gui offscreen padding symm nrow "
   .. "saturate file input"

--- Arranges images as toDisplayTensor does, and writes the result to the file `file`, by default
--- image.png. Returns the file's name. Torch7's display opened a window instead.
function M.display(...)
   local first = ...
   local o
   if select("#", ...) == 1 and type(first) == "table" and first[1] then
      o = {image = first}
   else
      o = by_name("display", shown, ...)
   end
   local picture = M.toDisplayTensor {input = o.image or o.input, padding = o.padding,
      nrow = o.nrow, scaleeach = o.scaleeach, min = o.min, max = o.max, symmetric = o.symm,
      saturate = o.saturate}
   if o.zoom and o.zoom ~= 1 then picture = M.scale(picture, "*" .. o.zoom, "simple") end
   local path = o.file or "image.png"
   M.save(path, picture)
   return path
end

function M.window()
   tlua.raise "image.window: there are no windows here; image.display writes a file"
end

local function absent(name)
   M[name] = function()
      tlua.raise(("image.%s: the picture is not part of this package; image.load reads one from a "
         .. "file"):format(name))
   end
end
absent "lena"
absent "fabio"

-- Drawing -----------------------------------------------------------------------------------------

-- Returns two results: the image on which to draw, and a function that sets the pixel (x, y) if it
-- is inside the image. Positions count from 0.
local function canvas(name, src, options)
   local size = types.is_tensor(src) and shape(src) or {}
   if #size ~= 3 or size[1] ~= 3 then
      tlua.raise(("image.%s: src: expected an image (3, height, width)"):format(name))
   end
   local made = options.inplace and src or src:clone()
   local factor = tlua.is_floating_point(src) and 1 / 255 or 1
   return made, function(x, y, width, height, colour)
      local x2, y2 = math.min(x + width, size[3]), math.min(y + height, size[2])
      x, y = math.max(x, 0), math.max(y, 0)
      if x >= x2 or y >= y2 then return end
      local part = made:narrow(2, y + 1, y2 - y):narrow(3, x + 1, x2 - x)
      for c = 1, 3 do part[c]:fill(colour[c] * factor) end
   end, size
end

--- Draws a text at (x, y), counted from 0: (src, text, x, y [, {color, bg, size, wrap, inplace}]).
--- Colours are {red, green, blue} from 0 to 255. The letters have 3 x 5 pixels, as in the package
--- plot.
function M.drawText(src, text, x, y, options)
   local o = by_name("drawText", "color bg size wrap inplace", options or {})
   local made, box, size = canvas("drawText", src, o)
   local found, font = pcall(require, "tlua.plot.font")
   if not found then tlua.raise "image.drawText: needs the package plot, which has the font" end
   local scale = o.size or 1
   check_whole("drawText", "size", scale, 1)
   x, y = position("drawText", "x", x), position("drawText", "y", y)
   local colour, left = o.color or {255, 0, 0}, x
   local cell = {(font.width + 1) * scale, (font.height + 1) * scale}
   for _, letter in ipairs(font.letters(tostring(text))) do
      if letter == "\n" or o.wrap ~= false and x > left and x + cell[1] > size[3] then
         x, y = left, y + cell[2]
      end
      if letter ~= "\n" then
         if o.bg then box(x, y, cell[1], cell[2], o.bg) end
         font.draw(letter, function(dx, dy)
            box(x + dx * scale, y + dy * scale, scale, scale, colour)
         end)
         x = x + cell[1]
      end
   end
   return made
end

--- Draws a rectangle's border: (src, x1, y1, x2, y2 [, {lineWidth, color, inplace}]).
function M.drawRect(src, x1, y1, x2, y2, options)
   local o = by_name("drawRect", "lineWidth color inplace", options or {})
   x1, y1 = position("drawRect", "x1", x1), position("drawRect", "y1", y1)
   x2, y2 = position("drawRect", "x2", x2), position("drawRect", "y2", y2)
   check_whole("drawRect", "lineWidth", o.lineWidth, 1)
   if x2 < x1 or y2 < y1 then
      tlua.raise(("image.drawRect: expected x1 <= x2 and y1 <= y2, got (%s, %s) and (%s, %s)")
         :format(x1, y1, x2, y2))
   end
   local made, box = canvas("drawRect", src, o)
   local colour, n = o.color or {255, 0, 0}, o.lineWidth or 1
   local w, h = x2 - x1 + 1, y2 - y1 + 1
   box(x1, y1, w, n, colour)
   box(x1, y2 - n + 1, w, n, colour)
   box(x1, y1, n, h, colour)
   box(x2 - n + 1, y1, n, h, colour)
   return made
end

return M
