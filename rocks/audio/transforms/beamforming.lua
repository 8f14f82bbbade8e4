-- beamforming.lua - beamformers that keep speech and suppress noise.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.audio.checks"
local define = require "tlua.audio.transforms.define"

local functional = torch.audio.functional

local M = {}

--- Computes cross-channel power spectral densities, as functional.psd does. With `multi_mask`, a
--- call takes a mask for each channel, and uses the mean of these masks.
---
---     local psd = torch.audio.transforms.PSD()
---     print(psd(torch.randn(2, 5, 7, {dtype = "complex64"})).shape)
---     --> torch.Size([5, 2, 2])
---@class audio.transforms.PSD: nn.Module
---@overload fun(multi_mask?: boolean, normalize?: boolean, eps?: number): nn.Module
M.PSD = define("PSD", [[multi_mask: boolean = false, normalize: boolean = true,
   eps: number = 1e-15]],
   function(self, specgram, mask)
      if mask and self.multi_mask then mask = mask:mean(-3) end
      return functional.psd(specgram, mask, self.normalize, self.eps)
   end)

--- Applies the weights of functional.mvdr_weights_souden. A call takes the spectra, psd_s, psd_n
--- and reference_channel.
---
---     local x = torch.randn(2, 5, 7, {dtype = "complex64"})
---     local psd = torch.audio.functional.psd(x)
---     print(torch.audio.transforms.SoudenMVDR()(x, psd, psd, 1).shape)
---     --> torch.Size([5, 7])
---@class audio.transforms.SoudenMVDR: nn.Module
---@overload fun(): nn.Module
M.SoudenMVDR = define("SoudenMVDR", "", function(_, specgram, psd_s, psd_n, reference_channel, ...)
   local weights = functional.mvdr_weights_souden(psd_s, psd_n, reference_channel, ...)
   return functional.apply_beamforming(weights, specgram)
end)

--- Applies the weights of functional.mvdr_weights_rtf. A call takes the spectra, rtf, psd_n and
--- reference_channel.
---
---     local x = torch.randn(2, 5, 7, {dtype = "complex64"})
---     local f = torch.audio.functional
---     local psd = f.psd(x)
---     local rtf = f.rtf_evd(psd)
---     print(torch.audio.transforms.RTFMVDR()(x, rtf, psd, 1).shape)
---     --> torch.Size([5, 7])
---@class audio.transforms.RTFMVDR: nn.Module
---@overload fun(): nn.Module
M.RTFMVDR = define("RTFMVDR", "", function(_, specgram, rtf, psd_n, reference_channel, ...)
   local weights = functional.mvdr_weights_rtf(rtf, psd_n, reference_channel, ...)
   return functional.apply_beamforming(weights, specgram)
end)

local solutions <const> = {ref_channel = true, stv_evd = true, stv_power = true}

local function weights_of(self, psd_s, psd_n, reference)
   if self.solution == "ref_channel" then
      return functional.mvdr_weights_souden(psd_s, psd_n, reference, self.diag_loading,
         self.diag_eps)
   end
   local rtf = self.solution == "stv_evd" and functional.rtf_evd(psd_s)
      or functional.rtf_power(psd_s, psd_n, reference, 3, self.diag_loading, self.diag_eps)
   return functional.mvdr_weights_rtf(rtf, psd_n, reference, self.diag_loading, self.diag_eps)
end

-- Returns the mean of the spectral densities of all calls so far. The weight of a call is the sum
-- of its mask.
local function updated(self, name, psd, mask)
   if self.multi_mask then mask = mask:mean(-3) end
   local sum, state = mask:sum(-1), self.seen[name]
   if state then
      local all = state.sum + sum
      local function widen(x) return x:unsqueeze(-1):unsqueeze(-1) end
      psd = state.psd * widen(state.sum / all) + psd * widen(1 / all)
      sum = all
   end
   self.seen[name] = {psd = psd, sum = sum}
   return psd
end

--- A beamformer for masks of speech and noise. A call takes spectra (..., channel, freq, time), the
--- mask of speech and the mask of noise, which by default is 1 minus the mask of speech. `solution`
--- is "ref_channel" (the default), "stv_evd" or "stv_power"; with `online`, the spectral densities
--- of all calls so far are averaged.
---
---     local mvdr = torch.audio.transforms.MVDR {ref_channel = 2}
---     local x = torch.randn(3, 5, 7, {dtype = "complex64"})
---     print(mvdr(x, torch.rand(5, 7)).shape)
---     --> torch.Size([5, 7])
---@class audio.transforms.MVDR: nn.Module
---@overload fun(ref_channel?: integer, solution?: string, options?: table): nn.Module
M.MVDR = define("MVDR", [[ref_channel: integer = 1, solution: string = 'ref_channel',
   multi_mask: boolean = false, diag_loading: boolean = true, diag_eps: number = 1e-7,
   online: boolean = false]],
   function(self, specgram, mask_s, mask_n)
      local title = "audio.transforms.MVDR"
      checks.complex(title, "specgram", specgram, 3, "(..., channel, freq, time)")
      if self.ref_channel > specgram:size(-3) then
         args.refuse(title, "specgram", ("at least %d channels"):format(self.ref_channel), specgram)
      end
      for name, mask in pairs {mask_s = mask_s or false, mask_n = mask_n or mask_s} do
         if not torch.is_tensor(mask) then
            args.refuse(title, name, "a tensor of shape (..., freq, time)", mask or nil)
         end
      end
      mask_n = mask_n or 1 - mask_s
      local x = specgram:to "complex128"
      local psd_s, psd_n = self.psd(x, mask_s:double()), self.psd(x, mask_n:double())
      if self.online then
         psd_s = updated(self, "speech", psd_s, mask_s:double())
         psd_n = updated(self, "noise", psd_n, mask_n:double())
      end
      local weights = weights_of(self, psd_s, psd_n, self.ref_channel)
      return functional.apply_beamforming(weights, x):to(specgram.dtype)
   end, function(self, a, title)
      checks.among(title, "solution", a.solution, solutions)
      checks.at_least(title, "ref_channel", a.ref_channel, 1)
      self.psd = M.PSD(a.multi_mask)
      self.seen = {}
   end)

return M
