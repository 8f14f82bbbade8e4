-- conv_tasnet.lua - Conv-TasNet (Luo and Mesgarani, 2019), which separates voices. Dilated
-- convolutions compute a mask for each voice. The learnt features of the sound are multiplied by
-- each mask.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local nn = torch.nn

local M = {}

local function norm(channels) return nn.GroupNorm(1, channels, {eps = 1e-8}) end

local Block = class.class("audio.models.ConvTasNetBlock", nn.Module)

function Block:__init(channels, hidden, size, dilation, has_residual)
   self.conv_layers = nn.Sequential(nn.Conv1d(channels, hidden, 1), nn.PReLU(), norm(hidden),
      nn.Conv1d(hidden, hidden, size, {padding = dilation, dilation = dilation, groups = hidden}),
      nn.PReLU(), norm(hidden))
   if has_residual then self.res_out = nn.Conv1d(hidden, channels, 1) end
   self.skip_out = nn.Conv1d(hidden, channels, 1)
   self.has_residual = has_residual
end

function Block:forward(x)
   local y = self.conv_layers(x)
   return self.skip_out(y), self.has_residual and self.res_out(y) or nil
end

local Masks = class.class("audio.models.ConvTasNetMasks", nn.Module)

function Masks:__init(a)
   self.input_dim, self.num_sources = a.enc_num_feats, a.num_sources
   self.input_norm = norm(a.enc_num_feats)
   self.input_conv = nn.Conv1d(a.enc_num_feats, a.msk_num_feats, 1)
   local list = {}
   for stack = 1, a.msk_num_stacks do
      for layer = 1, a.msk_num_layers do
         local is_last = stack == a.msk_num_stacks and layer == a.msk_num_layers
         list[#list + 1] = Block(a.msk_num_feats, a.msk_num_hidden_feats, a.msk_kernel_size,
            1 << layer - 1, not is_last)
      end
   end
   self.conv_layers = nn.ModuleList(list)
   self.output_prelu = nn.PReLU()
   self.output_conv = nn.Conv1d(a.msk_num_feats, a.enc_num_feats * a.num_sources, 1)
   self.mask_activate = a.msk_activate == "sigmoid" and nn.Sigmoid() or nn.ReLU()
end

function Masks:forward(x)
   local features, output = self.input_conv(self.input_norm(x)), nil
   for _, layer in ipairs(self.conv_layers) do
      local skip, residual = layer(features)
      if residual then features = features + residual end
      output = output and output + skip or skip
   end
   output = self.mask_activate(self.output_conv(self.output_prelu(output)))
   return output:view(x:size(1), self.num_sources, self.input_dim, -1)
end

--- Separates voices: a call takes waveforms (batch, 1, time) and returns (batch, sources, time).
---
---     local model = torch.audio.models.ConvTasNet {enc_num_feats = 16,
---        msk_num_feats = 8, msk_num_hidden_feats = 8, msk_num_stacks = 1}
---     print(model(torch.randn(2, 1, 100)).shape)
---     --> torch.Size([2, 2, 100])
---@class audio.models.ConvTasNet: nn.Module
---@field encoder nn.Module  computes features of the waveform
---@field mask_generator nn.Module  computes a mask for each voice
---@field decoder nn.Module  computes waveforms from masked features
---@overload fun(num_sources?: integer, options?: table): nn.Module
M.ConvTasNet = class.class("audio.models.ConvTasNet", nn.Module)

local take = args.signature [[audio.models.ConvTasNet(num_sources: count = 2,
   enc_kernel_size: count = 16, enc_num_feats: count = 512, msk_kernel_size: count = 3,
   msk_num_feats: count = 128, msk_num_hidden_feats: count = 512, msk_num_layers: layers = 8,
   msk_num_stacks: layers = 3, msk_activate: string = 'sigmoid')]]

function M.ConvTasNet:__init(...)
   local a = take(...)
   local title = "audio.models.ConvTasNet"
   if a.msk_activate ~= "sigmoid" and a.msk_activate ~= "relu" then
      args.refuse(title, "msk_activate", '"sigmoid" or "relu"', a.msk_activate)
   end
   if a.msk_kernel_size ~= 3 then -- with another size, convolutions would change the length
      args.refuse(title, "msk_kernel_size", "3", a.msk_kernel_size)
   end
   if a.enc_kernel_size < 2 then
      args.refuse(title, "enc_kernel_size", "at least 2", a.enc_kernel_size)
   end
   self.num_sources, self.enc_kernel_size = a.num_sources, a.enc_kernel_size
   self.enc_num_feats, self.enc_stride = a.enc_num_feats, a.enc_kernel_size // 2
   local options = {stride = self.enc_stride, padding = self.enc_stride, bias = false}
   self.encoder = nn.Conv1d(1, a.enc_num_feats, a.enc_kernel_size, options)
   self.mask_generator = Masks(a)
   self.decoder = nn.ConvTranspose1d(a.enc_num_feats, 1, a.enc_kernel_size, options)
end

function M.ConvTasNet:forward(x)
   if x:dim() ~= 3 or x:size(2) ~= 1 then
      args.refuse("audio.models.ConvTasNet", "input", "a tensor of shape (batch, 1, time)", x)
   end
   local length = x:size(3)
   local rest = (length - self.enc_kernel_size % 2) % self.enc_stride
   if rest > 0 then x = nn.functional.pad(x, {0, self.enc_stride - rest}) end
   local spectra = self.encoder(x)
   local masked = self.mask_generator(spectra) * spectra:unsqueeze(2)
   local batch = x:size(1)
   local y = self.decoder(masked:view(batch * self.num_sources, self.enc_num_feats, -1))
   return y:view(batch, self.num_sources, -1):narrow(3, 1, length)
end

local take_base = args.signature "audio.models.conv_tasnet_base(num_sources: count = 2)"

--- Returns a ConvTasNet with the sizes of the paper.
---
---     local model = torch.audio.models.conv_tasnet_base()
---     print(model.num_sources)
---     --> 2
---@param num_sources? integer  the number of voices, 2 by default
---@return audio.models.ConvTasNet
function M.conv_tasnet_base(...)
   return M.ConvTasNet {num_sources = take_base(...).num_sources, msk_activate = "relu"}
end

return M
