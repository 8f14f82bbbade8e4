-- stft.lua - torch.stft and torch.istft, which are also methods of tensors: the short-time Fourier
-- transform and its inverse. Each column of the transform is the Fourier transform of one frame of
-- a signal. Frames overlap, and are multiplied by a window.

local torch = require "tlua"
local args = require "tlua.args"

local M = {}

local refuse = args.refuse

-- Checks the sizes of the frames and of the window. Returns hop_length and win_length, with their
-- defaults filled in.
local function sizes_of(who, a)
   if a.n_fft < 1 then refuse(who, "n_fft", "at least 1", a.n_fft) end
   local hop = a.hop_length or a.n_fft // 4
   if hop < 1 then refuse(who, "hop_length", "at least 1", hop) end
   local win = a.win_length or a.n_fft
   if win < 1 or win > a.n_fft then
      refuse(who, "win_length", ("1 to n_fft, %d"):format(a.n_fft), win)
   end
   if a.window and (a.window:dim() ~= 1 or a.window:numel() ~= win) then
      refuse(who, "window", ("a vector of win_length, %d, numbers"):format(win), a.window)
   end
   return hop, win
end

-- Returns the window, padded with zeros at both ends to n_fft numbers, or nil if all of these
-- numbers are 1.
local function whole_window(a, win, like)
   local window = a.window
   if not window and win == a.n_fft then return nil end
   window = window or torch.ones(win, {dtype = like.dtype, device = like.device})
   local left = (a.n_fft - win) // 2
   if win == a.n_fft then return window end
   return torch.nn.functional.pad(window, {left, a.n_fft - win - left})
end

local function check_signal(who, input)
   if not (input:is_floating_point() or input:is_complex()) then
      refuse(who, "input", "floating or complex numbers", input)
   end
   if input:dim() ~= 1 and input:dim() ~= 2 then
      refuse(who, "input", "one or two dimensions", input)
   end
end

local take_stft = args.signature [[stft(input: tensor, n_fft: integer, hop_length: integer?,
   win_length: integer?, window: tensor?, center: boolean = true, pad_mode: string = 'reflect',
   normalized: boolean = false, onesided: boolean?, return_complex: boolean = true,
   align_to_window: boolean?)]]

local pad_modes <const> = {reflect = true, constant = true, replicate = true, circular = true}

-- Returns the signals as (B, length), padded at both ends if the options `center` and
-- `align_to_window` require it.
local function padded(a, win)
   local x = a.input
   if not pad_modes[a.pad_mode] then
      refuse("stft", "pad_mode", '"reflect", "constant", "replicate" or "circular"', a.pad_mode)
   end
   if x:dim() == 1 then x = x:unsqueeze(1) end
   if a.center then
      if a.align_to_window ~= nil then
         refuse("stft", "align_to_window", "none with center", a.align_to_window)
      end
      local n = a.n_fft // 2
      if n >= x:size(2) and a.pad_mode == "reflect" then
         refuse("stft", "n_fft", ("less than twice the signal's length, %d, which is padded by "
            .. "reflection"):format(x:size(2)), a.n_fft)
      end
      return torch.nn.functional.pad(x:unsqueeze(1), {n, n}, a.pad_mode):squeeze(1)
   elseif a.align_to_window then
      local n = (a.n_fft - win) // 2
      return torch.nn.functional.pad(x, {n, n})
   end
   return x
end

--- Returns the short-time Fourier transform of signals. A signal is cut into frames of n_fft
--- numbers, each of which is multiplied by the window and transformed. Frame t begins at
--- t * hop_length. With center, t * hop_length is the middle of frame t instead, and the signals
--- are first padded by n_fft // 2 numbers at both ends.
---@param input Tensor  (L) or (B, L), real or complex
---@param n_fft integer  the size of a frame
---@param hop_length? integer  the distance of frames, n_fft // 4 unless given
---@param win_length? integer  the window's size, n_fft unless given; zeros surround it
---@param window? Tensor  (win_length), ones unless given
---@param center? boolean  true unless given
---@param pad_mode? string  "reflect" unless given; see torch.nn.functional.pad
---@param normalized? boolean  whether to divide by sqrt(n_fft)
---@param onesided? boolean  whether to return only the first n_fft // 2 + 1 frequencies: by default
--- for real signals
---@param return_complex? boolean  true unless given; otherwise the last dimension contains the real
--- and the imaginary part
---@param align_to_window? boolean  without center: whether the first window begins at the signal's
--- first number
---@return Tensor  (N, T) or (B, N, T), complex: N frequencies of T frames
function M.stft(...)
   local a = take_stft(...)
   check_signal("stft", a.input)
   local hop, win = sizes_of("stft", a)
   local is_complex = a.input:is_complex() or a.window ~= nil and a.window:is_complex()
   local onesided = a.onesided
   if onesided == nil then onesided = not is_complex end
   if onesided and is_complex then
      refuse("stft", "onesided", "false for complex signals or windows", true)
   end
   local x = padded(a, win)
   if x:size(2) < a.n_fft then
      refuse("stft", "n_fft", ("at most the signal's length, %d"):format(x:size(2)), a.n_fft)
   end
   local frames = x:unfold(2, a.n_fft, hop) -- (B, T, n_fft)
   local window = whole_window(a, win, a.input)
   if window then frames = frames * window end
   local options = {norm = a.normalized and "ortho" or "backward"}
   local transform = onesided and torch.fft.rfft or torch.fft.fft
   local out = transform(frames, options):transpose(2, 3)
   if a.input:dim() == 1 then out = out:squeeze(1) end
   return a.return_complex and out or out:view_as_real()
end

local take_istft = args.signature [[istft(input: tensor, n_fft: integer, hop_length: integer?,
   win_length: integer?, window: tensor?, center: boolean = true, normalized: boolean = false,
   onesided: boolean?, length: integer?, return_complex: boolean = false)]]

-- Adds up overlapping frames (B, T, n_fft); each frame begins `hop` numbers after the previous
-- frame. Returns signals (B, n_fft + hop * (T - 1)).
local function overlapped(frames, hop)
   local batch, count, n = frames:size(1), frames:size(2), frames:size(3)
   local columns = frames:transpose(2, 3)
   local length = n + hop * (count - 1)
   local sum = torch.nn.functional.fold(columns, {1, length}, {1, n}, {stride = {1, hop}})
   return sum:reshape(batch, length)
end

-- Adds up frames as `overlapped` does. The frames may be complex: their real and imaginary parts
-- are added up separately.
local function overlapped_any(frames, hop)
   if not frames:is_complex() then return overlapped(frames, hop) end
   local real, imag = overlapped(torch.real(frames), hop), overlapped(torch.imag(frames), hop)
   return torch.complex(real, imag)
end

-- Checks the arguments of istft. Returns whether the transform is one-sided: it has only the
-- frequencies from 0 to n_fft // 2.
local function check_transform(a)
   local x = a.input
   if not x:is_complex() then refuse("istft", "input", "complex numbers", x) end
   if x:dim() ~= 2 and x:dim() ~= 3 or x:numel() == 0 then
      refuse("istft", "input", "elements in a shape (N, T) or (B, N, T)", x)
   end
   local rows, onesided = x:size(-2), a.onesided
   if onesided == nil then onesided = rows ~= a.n_fft end
   local want = onesided and a.n_fft // 2 + 1 or a.n_fft
   if rows ~= want then
      refuse("istft", "input", ("%d frequencies for n_fft = %d, %s"):format(want, a.n_fft,
         onesided and "onesided" or "not onesided"), x)
   end
   if a.return_complex and onesided then
      refuse("istft", "onesided", "false for complex results", true)
   elseif not a.return_complex and a.window and a.window:is_complex() then
      refuse("istft", "window", "real numbers, unless return_complex", a.window)
   end
   return onesided
end

-- Returns the frames (B, T, n_fft) of the signals, by the inverse transform of each column.
local function frames_of(a, onesided)
   local x = a.input
   if x:dim() == 2 then x = x:unsqueeze(1) end
   x = x:transpose(2, 3)
   local options = {norm = a.normalized and "ortho" or "backward"}
   if a.return_complex then return torch.fft.ifft(x, options) end
   if not onesided then x = x:narrow(-1, 1, a.n_fft // 2 + 1) end
   return torch.fft.irfft(x, a.n_fft, options)
end

-- Returns the first and the last position of the signal without its padding, among the numbers that
-- the frames cover. `covered` is the count of these numbers, including the padding.
local function range_of(a, covered)
   local first = a.center and a.n_fft // 2 or 0
   local last = a.length and first + a.length or a.center and covered - a.n_fft // 2 or covered
   if last <= first then
      refuse("istft", a.length and "length" or "input", "a signal of at least one number",
         last - first)
   end
   return first + 1, math.min(last, covered)
end

--- Returns the signals that have a given short-time Fourier transform: the inverse of torch.stft.
--- The inverse transforms of the frames are multiplied by the window and added up, and the sum is
--- divided by the sum of the squared windows, which must not be 0 anywhere. The other arguments are
--- those of torch.stft.
---@param input Tensor  (N, T) or (B, N, T), complex: N frequencies of T frames
---@param n_fft integer  the size of a frame
---@param hop_length? integer  the distance of frames, n_fft // 4 unless given
---@param win_length? integer  the window's size, n_fft unless given
---@param window? Tensor  (win_length), ones unless given
---@param center? boolean  true unless given: whether frames had their middle at t * hop_length
---@param normalized? boolean  whether the transform was divided by sqrt(n_fft)
---@param onesided? boolean  whether input has n_fft // 2 + 1 frequencies instead of n_fft; by
--- default the size of input decides
---@param length? integer  the length to which the signals are cut or padded with zeros
---@param return_complex? boolean  whether the signals are complex; false unless given
---@return Tensor  (L) or (B, L)
function M.istft(...)
   local a = take_istft(...)
   local onesided = check_transform(a)
   local hop, win = sizes_of("istft", a)
   if hop > win then refuse("istft", "hop_length", ("at most win_length, %d"):format(win), hop) end
   local frames = frames_of(a, onesided)
   local window = whole_window(a, win, frames)
      or torch.ones(a.n_fft, {dtype = frames.dtype, device = frames.device})
   local sum = overlapped_any(frames * window, hop)
   local count = frames:size(2)
   local weights = overlapped_any(window:square():expand(1, count, a.n_fft), hop)
   local first, last = range_of(a, sum:size(2))
   sum, weights = sum:narrow(2, first, last - first + 1), weights:narrow(2, first, last - first + 1)
   if weights:detach():abs():min():item() <= 1e-11 then
      refuse("istft", "window", "windows whose squares add up to more than 0 everywhere",
         a.window or win)
   end
   local out = sum / weights
   if a.length and a.length > out:size(2) then
      out = torch.nn.functional.pad(out, {0, a.length - out:size(2)})
   end
   return a.input:dim() == 2 and out:squeeze(1) or out
end

return M
