-- masks.lua - transforms that mask random parts of spectrograms.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.audio.checks"
local define = require "tlua.audio.transforms.define"

local functional = torch.audio.functional

local M = {}

-- Masks a random band along a dimension. `back` is the position of this dimension from the end,
-- where 1 is the last dimension. With iid_masks, each example and channel has its own band.
local function mask(self, specgram, param, back, value)
   value = value or 0
   if self.iid_masks then
      return functional.mask_along_axis_iid(specgram, param, value, -back, self.p or 1)
   end
   if torch.is_tensor(value) then value = value:item() end
   return functional.mask_along_axis(specgram, param, value, -back, self.p or 1)
end

local function check_p(title, p)
   if not (p >= 0 and p <= 1) then args.refuse(title, "p", "a number from 0 to 1", p) end
end

--- Masks a random band of frequencies, which has fewer than freq_mask_param rows. The second
--- argument of a call is the value of masked elements, 0 by default.
---
---     local mask = torch.audio.transforms.FrequencyMasking(10)
---     print(mask(torch.rand(2, 80, 50)).shape)
---     --> torch.Size([2, 80, 50])
---@class audio.transforms.FrequencyMasking: nn.Module
---@overload fun(freq_mask_param: integer, iid_masks?: boolean): nn.Module
M.FrequencyMasking = define("FrequencyMasking", [[freq_mask_param: integer,
   iid_masks: boolean = false]],
   function(self, specgram, mask_value)
      return mask(self, specgram, self.freq_mask_param, 2, mask_value)
   end, function(_, a, title)
      checks.at_least(title, "freq_mask_param", a.freq_mask_param, 0)
   end)

--- Masks a random span of time, which has fewer than time_mask_param frames and at most the
--- fraction p of all frames.
---
---     local mask = torch.audio.transforms.TimeMasking(10)
---     print(mask(torch.rand(2, 80, 50)).shape)
---     --> torch.Size([2, 80, 50])
---@class audio.transforms.TimeMasking: nn.Module
---@overload fun(time_mask_param: integer, iid_masks?: boolean, p?: number): nn.Module
M.TimeMasking = define("TimeMasking", [[time_mask_param: integer, iid_masks: boolean = false,
   p: number = 1]],
   function(self, specgram, mask_value)
      return mask(self, specgram, self.time_mask_param, 1, mask_value)
   end, function(_, a, title)
      checks.at_least(title, "time_mask_param", a.time_mask_param, 0)
      check_p(title, a.p)
   end)

--- Masks several spans of time and bands of frequency with zero or with the mean.
---
---     local augment = torch.audio.transforms.SpecAugment(2, 10, 2, 10)
---     print(augment(torch.rand(2, 80, 50)).shape)
---     --> torch.Size([2, 80, 50])
---@class audio.transforms.SpecAugment: nn.Module
---@overload fun(n_time_masks: integer, time_mask_param: integer, options?: table): nn.Module
M.SpecAugment = define("SpecAugment", [[n_time_masks: integer, time_mask_param: integer,
   n_freq_masks: integer, freq_mask_param: integer, iid_masks: boolean = true, p: number = 1,
   zero_masking: boolean = false]],
   function(self, specgram)
      checks.real("audio.transforms.SpecAugment", "specgram", specgram, 2, "(..., freq, time)")
      local value = self.zero_masking and 0 or specgram:mean()
      local settings = {iid_masks = self.iid_masks and specgram:dim() > 2, p = self.p}
      for _ = 1, self.n_time_masks do
         specgram = mask(settings, specgram, self.time_mask_param, 1, value)
      end
      for _ = 1, self.n_freq_masks do
         specgram = mask(settings, specgram, self.freq_mask_param, 2, value)
      end
      return specgram
   end, function(_, a, title)
      for _, name in ipairs {"n_time_masks", "time_mask_param", "n_freq_masks",
         "freq_mask_param"} do
         checks.at_least(title, name, a[name], 0)
      end
      check_p(title, a.p)
   end)

return M
