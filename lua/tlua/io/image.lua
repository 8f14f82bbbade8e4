-- image.lua - writes image files from tensors in torch.load's layout, (channels, height, width) of
-- uint8.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

--- Returns the content of a PNG file.
---@param image any  (channels, height, width) or (height, width), uint8; 1 channel: grey, 2: with
--- opacity, 3: RGB, 4: RGBA
---@return string? content
---@return string? message
function M.png(image)
   if not torch.is_tensor(image) then
      return nil, "a PNG file takes a tensor, got " .. args.describe(image)
   end
   local shape = image.shape
   if #shape == 2 then table.insert(shape, 1, 1) end
   local channels, height, width = table.unpack(shape)
   if #shape ~= 3 or channels < 1 or channels > 4 or height < 1 or width < 1 then
      return nil, "a PNG file takes an image of shape (1 to 4 channels, height, width), got "
         .. args.describe(image)
   end
   if image.dtype ~= "uint8" then
      return nil, ("a PNG file takes uint8 from 0 to 255, got %s; from 0 to 1: "
         .. '(x * 255):round():to "uint8"'):format(image.dtype)
   end
   local pixels = image:detach():cpu():view(channels, height, width):permute({2, 3, 1})
   pixels = pixels:contiguous():view(-1)
   local rows, row = {}, width * channels
   for y = 1, height do rows[y] = torch.io.text(pixels, (y - 1) * row + 1, row) end
   return require "tlua.io.png".encode(width, height, rows)
end

return M
