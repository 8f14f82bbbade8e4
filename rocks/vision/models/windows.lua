-- windows.lua - functions that the transformers with windows share. They number the relative
-- positions of pixels in a window, and look up the biases of these positions for attention.

local torch = require "tlua"

local M = {}

--- Returns the number of the relative position for each pair of pixels in a window. The numbers
--- begin with 0, as in torchvision's state dicts.
---@param height integer
---@param width integer
---@return Tensor  (height * width, height * width) int64
function M.relative_positions(height, width)
   local place = {device = "cpu"}
   local y = torch.arange(0, height, place):view(-1, 1):expand(height, width):flatten()
   local x = torch.arange(0, width, place):view(1, -1):expand(height, width):flatten()
   local dy = y:unsqueeze(2) - y:unsqueeze(1) + (height - 1)
   local dx = x:unsqueeze(2) - x:unsqueeze(1) + (width - 1)
   return (dy * (2 * width - 1) + dx):long():to(torch.get_default_device())
end

--- Returns the biases of the attention heads for all pairs of pixels, which are rows of a table of
--- learnt values.
---@param values Tensor  (rows, heads)
---@param positions Tensor  positions that count from 0
---@param n integer  the number of pixels in a window
---@return Tensor  (1, heads, n, n)
function M.biases(values, positions, n)
   local chosen = values:index_select(1, positions:flatten() + 1)
   return chosen:view(n, n, -1):permute({3, 1, 2}):unsqueeze(1)
end

return M
