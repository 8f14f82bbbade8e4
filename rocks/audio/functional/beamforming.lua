-- beamforming.lua - spectral densities between several microphones, and the weights of beamformers,
-- which keep one source and suppress all others. Channels count from 1.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.audio.checks"

local M = {}

local prefix <const> = "audio.functional."

local take_psd = args.signature(prefix .. [[psd(specgram: tensor, mask: tensor?,
   normalize: boolean = true, eps: number = 1e-10)]])

--- Returns the cross-channel power spectral densities: for each frequency, a matrix of the products
--- of the channels' spectra, summed over time with the weights of the mask.
---@param specgram Tensor  (..., channel, freq, time), complex
---@param mask? Tensor
---@param normalize? boolean  whether the mask is divided by its sum over time
---@param eps? number
---@return Tensor  (..., freq, channel, channel)
function M.psd(...)
   local title, a = prefix .. "psd", take_psd(...)
   checks.complex(title, "specgram", a.specgram, 3, "(..., channel, freq, time)")
   local x = a.specgram:transpose(-3, -2)
   local weighted = x
   if a.mask then
      local expected = {table.unpack(x.shape)}
      table.remove(expected, #expected - 1)
      local got = a.mask.shape
      local same = #got == #expected
      for i, size in ipairs(expected) do same = same and got[i] == size end
      if not same then
         args.refuse(title, "mask", ("a tensor of shape (%s)"):format(table.concat(expected, ", ")),
            a.mask)
      end
      local mask = a.mask
      if a.normalize then mask = mask / (mask:sum(-1, {keepdim = true}) + a.eps) end
      weighted = x * mask:unsqueeze(-2)
   end
   return weighted:matmul(x:conj():transpose(-1, -2))
end

-- Returns the trace of the last two dimensions.
local function trace(x) return x:diagonal(0, -2, -1):sum(-1) end

local function real_of(x) return x:view_as_real():select(-1, 1) end

local function load_diagonal(x, weight)
   local n = x:size(-1)
   local eye = torch.eye(n, {device = x.device}):to(x.dtype)
   local epsilon = real_of(trace(x)) * weight + 1e-8
   return x + eye * epsilon:unsqueeze(-1):unsqueeze(-1)
end

local function check_pair(title, a)
   for _, name in ipairs {"psd_s", "psd_n"} do
      local x = a[name]
      checks.complex(title, name, x, 3, "(..., freq, channel, channel)")
      if x:size(-1) ~= x:size(-2) then args.refuse(title, name, "square matrices", x) end
   end
   if table.concat(a.psd_s.shape, ",") ~= table.concat(a.psd_n.shape, ",") then
      args.refuse(title, "psd_n", ("the shape of psd_s, (%s)"):format(
         table.concat(a.psd_s.shape, ", ")), a.psd_n)
   end
end

-- Selects the reference channel in the last dimension of x. If `channel` is a tensor of weights,
-- returns the weighted sum of all channels instead. `extra` is the number of dimensions that are
-- inserted before the last dimension of the weights.
local function choose(title, x, channel, extra)
   if math.type(channel) == "integer" then
      local n = x:size(-1)
      if channel == 0 or math.abs(channel) > n then
         args.refuse(title, "reference_channel", ("a position from 1 to %d"):format(n), channel)
      end
      return x:select(-1, channel)
   elseif not torch.is_tensor(channel) then
      args.refuse(title, "reference_channel", "an integer or a tensor", channel)
   end
   local weights = channel:to(x.dtype)
   for _ = 1, extra do weights = weights:unsqueeze(-2) end
   return (x * weights):sum(-1)
end

local take_souden = args.signature(prefix .. [[mvdr_weights_souden(psd_s: tensor, psd_n: tensor,
   reference_channel: any, diagonal_loading: boolean = true, diag_eps: number = 1e-7,
   eps: number = 1e-8)]])

--- Returns the weights of a beamformer that keeps the speech with the least noise, by Souden's
--- method.
---@param psd_s Tensor
---@param psd_n Tensor
---@param reference_channel integer|Tensor
---@param diagonal_loading? boolean
---@param diag_eps? number
---@param eps? number
---@return Tensor  (..., freq, channel)
function M.mvdr_weights_souden(...)
   local title, a = prefix .. "mvdr_weights_souden", take_souden(...)
   check_pair(title, a)
   local noise = a.diagonal_loading and load_diagonal(a.psd_n, a.diag_eps) or a.psd_n
   local numerator = torch.linalg.solve(noise, a.psd_s)
   local weights = numerator / (trace(numerator) + a.eps):unsqueeze(-1):unsqueeze(-1)
   return choose(title, weights, a.reference_channel, 2)
end

local take_rtf = args.signature(prefix .. [[mvdr_weights_rtf(rtf: tensor, psd_n: tensor,
   reference_channel: any?, diagonal_loading: boolean = true, diag_eps: number = 1e-7,
   eps: number = 1e-8)]])

--- Returns the weights of a beamformer that keeps the source with the relative transfer functions
--- `rtf`.
---@param rtf Tensor
---@param psd_n Tensor
---@param reference_channel? integer|Tensor
---@param diagonal_loading? boolean
---@param diag_eps? number
---@param eps? number
---@return Tensor  (..., freq, channel)
function M.mvdr_weights_rtf(...)
   local title, a = prefix .. "mvdr_weights_rtf", take_rtf(...)
   checks.complex(title, "rtf", a.rtf, 2, "(..., freq, channel)")
   checks.complex(title, "psd_n", a.psd_n, 3, "(..., freq, channel, channel)")
   local sizes = {table.unpack(a.rtf.shape)}
   sizes[#sizes + 1] = sizes[#sizes]
   if table.concat(sizes, ",") ~= table.concat(a.psd_n.shape, ",") then
      args.refuse(title, "psd_n", ("a tensor of shape (%s)"):format(table.concat(sizes, ", ")),
         a.psd_n)
   end
   local noise = a.diagonal_loading and load_diagonal(a.psd_n, a.diag_eps) or a.psd_n
   local numerator = torch.linalg.solve(noise, a.rtf:unsqueeze(-1)):squeeze(-1)
   local denominator = real_of((a.rtf:conj() * numerator):sum(-1))
   local weights = numerator / (denominator + a.eps):unsqueeze(-1)
   if a.reference_channel == nil then return weights end
   local scale = choose(title, a.rtf:conj(), a.reference_channel, 1)
   return weights * scale:unsqueeze(-1)
end

local take_evd = args.signature(prefix .. "rtf_evd(psd_s: tensor)")

--- Returns the relative transfer functions, which are the eigenvectors of psd_s for the largest
--- eigenvalue.
---@param psd_s Tensor
---@return Tensor  (..., freq, channel)
function M.rtf_evd(...)
   local title, a = prefix .. "rtf_evd", take_evd(...)
   checks.complex(title, "psd_s", a.psd_s, 2, "(..., freq, channel, channel)")
   if a.psd_s:size(-1) ~= a.psd_s:size(-2) then
      args.refuse(title, "psd_s", "square matrices", a.psd_s)
   end
   local _, vectors = torch.linalg.eigh(a.psd_s)
   return vectors:select(-1, -1)
end

local take_power = args.signature(prefix .. [[rtf_power(psd_s: tensor, psd_n: tensor,
   reference_channel: any, n_iter: integer = 3, diagonal_loading: boolean = true,
   diag_eps: number = 1e-7)]])

--- Returns the relative transfer functions, computed by power iteration.
---@param psd_s Tensor
---@param psd_n Tensor
---@param reference_channel integer|Tensor
---@param n_iter? integer  3 by default
---@param diagonal_loading? boolean
---@param diag_eps? number
---@return Tensor  (..., freq, channel)
function M.rtf_power(...)
   local title, a = prefix .. "rtf_power", take_power(...)
   check_pair(title, a)
   checks.at_least(title, "n_iter", a.n_iter, 1)
   local noise = a.diagonal_loading and load_diagonal(a.psd_n, a.diag_eps) or a.psd_n
   local phi = torch.linalg.solve(noise, a.psd_s)
   local rtf = choose(title, phi, a.reference_channel, 2):unsqueeze(-1)
   for _ = 1, a.n_iter - 2 do rtf = phi:matmul(rtf) end
   return (a.n_iter >= 2 and a.psd_s or noise):matmul(rtf):squeeze(-1)
end

local take_apply = args.signature(prefix .. [[apply_beamforming(beamform_weights: tensor,
   specgram: tensor)]])

--- Applies a beamformer's weights to the spectra of several channels.
---@param beamform_weights Tensor  (..., freq, channel), complex
---@param specgram Tensor  (..., channel, freq, time), complex
---@return Tensor  (..., freq, time)
function M.apply_beamforming(...)
   local title, a = prefix .. "apply_beamforming", take_apply(...)
   checks.complex(title, "beamform_weights", a.beamform_weights, 2, "(..., freq, channel)")
   checks.complex(title, "specgram", a.specgram, 3, "(..., channel, freq, time)")
   local w, x = a.beamform_weights, a.specgram
   if w:dim() ~= x:dim() - 1 or w:size(-1) ~= x:size(-3) or w:size(-2) ~= x:size(-2) then
      args.refuse(title, "beamform_weights", ("weights of %d frequencies and %d channels"):format(
         x:size(-2), x:size(-3)), w)
   end
   return w:conj():unsqueeze(-2):matmul(x:transpose(-3, -2)):squeeze(-2)
end

return M
