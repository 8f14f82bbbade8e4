-- windows.lua - torch.hann_window and similar functions: older forms of the functions in
-- torch.signal.windows.

local args = require "tlua.args"
local windows = require "tlua.signal.windows"

local M = {}

local options <const> = [[, dtype: string?, device: device?, requires_grad: boolean = false)]]

local function take(name, own)
   local text = "%s(window_length: count, periodic: boolean = true%s%s"
   return args.signature(text:format(name, own or "", options))
end

-- Returns the table of options for the function of torch.signal.windows that computes the window.
local function options_of(a)
   return {sym = not a.periodic, dtype = a.dtype, device = a.device,
      requires_grad = a.requires_grad}
end

--- Returns the Hann, Bartlett or Blackman window of window_length numbers, as
--- torch.signal.windows.hann, bartlett or blackman do with the option sym = not periodic.
---@param window_length integer  the number of elements
---@param periodic? boolean  true unless given; the window then has the period window_length,
--- otherwise it is symmetric
---@param options? {dtype?: string, device?: string, requires_grad?: boolean}
---@return Tensor
---@names torch.hann_window torch.bartlett_window torch.blackman_window
for _, name in ipairs {"hann", "bartlett", "blackman"} do
   local take_it = take(name .. "_window")
   M[name .. "_window"] = function(...)
      local a = take_it(...)
      return windows[name](a.window_length, options_of(a))
   end
end

local take_hamming = take("hamming_window", ", alpha: number = 0.54, beta: number = 0.46")

--- Returns the Hamming window, alpha - beta cos(x), for x from 0 to 2 pi.
---@param window_length integer  the number of elements
---@param periodic? boolean  true unless given; the window then has the period window_length,
--- otherwise it is symmetric
---@param alpha? number  0.54 unless given
---@param beta? number  0.46 unless given
---@param options? {dtype?: string, device?: string, requires_grad?: boolean}
---@return Tensor
---@names torch.hamming_window
function M.hamming_window(...)
   local a = take_hamming(...)
   return windows.general_cosine(a.window_length, {a.alpha, a.beta}, options_of(a))
end

local take_kaiser = take("kaiser_window", ", beta: number = 12.0")

--- Returns the Kaiser window; see torch.signal.windows.kaiser.
---@param window_length integer  the number of elements
---@param periodic? boolean  true unless given; the window then has the period window_length,
--- otherwise it is symmetric
---@param beta? number  12 unless given
---@param options? {dtype?: string, device?: string, requires_grad?: boolean}
---@return Tensor
---@names torch.kaiser_window
function M.kaiser_window(...)
   local a = take_kaiser(...)
   return windows.kaiser(a.window_length, a.beta, options_of(a))
end

return M
