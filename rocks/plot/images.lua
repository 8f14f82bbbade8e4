-- images.lua - draws images from tensors. In the terminal, an image is shown as coloured half
-- blocks or as shades of grey; files are PNG, or SVG with an embedded PNG.

local png = require "tlua.io.png"

local M = {}

local shades = {[0] = "  ", "░░", "▒▒", "▓▓", "██"}

--- Draws the image as lines of text. In shades of grey, two characters show one pixel. In colour,
--- one character shows two pixels, one above the other.
---@param figure utils.plot.Figure
---@param coloured boolean
---@return string
function M.text(figure, coloured)
   local pixels, out = figure.pixels, {figure.title}
   local height, width = #pixels, #pixels[1]
   if not coloured then
      for y = 1, height do
         local row = {}
         for x = 1, width do
            local p = pixels[y][x]
            local light = (0.299 * p[1] + 0.587 * p[2] + 0.114 * p[3]) / 255
            row[x] = shades[math.floor(light * 4 + 0.5)]
         end
         out[#out + 1] = (table.concat(row):gsub("%s+$", ""))
      end
      return table.concat(out, "\n")
   end
   for y = 1, height, 2 do
      local row = {}
      for x = 1, width do
         local a, b = pixels[y][x], pixels[y + 1] and pixels[y + 1][x] or {0, 0, 0}
         row[x] = ("\27[38;2;%d;%d;%d;48;2;%d;%d;%dm▀"):format(a[1], a[2], a[3], b[1], b[2], b[3])
      end
      out[#out + 1] = table.concat(row) .. "\27[0m"
   end
   return table.concat(out, "\n")
end

--- Encodes the image as PNG, and returns the bytes of the file. Each pixel is enlarged by the
--- factor `scale`.
---@param figure utils.plot.Figure
---@param packs? boolean  whether the pixels are compressed if zlib is installed
---@return string
function M.png(figure, packs)
   local pixels, scale, rows = figure.pixels, figure.scale, {}
   for _, line in ipairs(pixels) do
      local bytes = {}
      for x, p in ipairs(line) do
         local one = figure.grey and string.char(p[1]) or string.char(p[1], p[2], p[3])
         bytes[x] = one:rep(scale)
      end
      local row = table.concat(bytes)
      for _ = 1, scale do rows[#rows + 1] = row end
   end
   return png.encode(#pixels[1] * scale, #pixels * scale, rows, nil, packs)
end

--- Returns the image as an SVG document.
---@param figure utils.plot.Figure
---@return string
function M.svg(figure)
   local width, height = #figure.pixels[1] * figure.scale, #figure.pixels * figure.scale
   return ([[<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d">
<image width="%d" height="%d" style="image-rendering:pixelated" href="data:image/png;base64,%s"/>
</svg>
]]):format(width, height, width, height, png.base64(M.png(figure)))
end

return M
