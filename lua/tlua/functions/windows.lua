-- windows.lua - torch.hann_window and its kind: the older forms of some of torch.signal.windows.

local args = require "tlua.args"
local windows = require "tlua.signal.windows"

local M = {}

local options <const> = [[, dtype: string?, device: device?, requires_grad: boolean = false)]]

local function take(name, own)
   local text = "%s(window_length: count, periodic: boolean = true%s%s"
   return args.signature(text:format(name, own or "", options))
end

-- Returns the options of torch.signal.windows for a call.
local function options_of(a)
   return {sym = not a.periodic, dtype = a.dtype, device = a.device,
      requires_grad = a.requires_grad}
end

--- Returns a window of window_length numbers: torch.signal.windows.hann, bartlett or blackman with
--- sym = not periodic.
---@param window_length integer
---@param periodic? boolean  true unless given: the element after the last one would equal the first
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

--- Returns Hamming's window, alpha - beta cos(x).
---@param window_length integer
---@param periodic? boolean  true unless given: the element after the last one would equal the first
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

--- Returns Kaiser's window; see torch.signal.windows.kaiser.
---@param window_length integer
---@param periodic? boolean  true unless given: the element after the last one would equal the first
---@param beta? number  12 unless given
---@param options? {dtype?: string, device?: string, requires_grad?: boolean}
---@return Tensor
---@names torch.kaiser_window
function M.kaiser_window(...)
   local a = take_kaiser(...)
   return windows.kaiser(a.window_length, a.beta, options_of(a))
end

return M
