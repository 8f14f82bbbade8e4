-- wav2letter.lua - Wav2Letter (Collobert et al., 2016): convolutions over time.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local nn = torch.nn

--- Recognises characters: a call takes waveforms or features (batch, features, time) and returns
--- log-probabilities (batch, classes, time). `input_type` is "waveform" (the default),
--- "power_spectrum" or "mfcc".
---
---     local Wav2Letter = torch.audio.models.Wav2Letter
---     local model = Wav2Letter {input_type = "mfcc", num_features = 13}
---     print(model(torch.randn(1, 13, 60)).shape)
---     --> torch.Size([1, 40, 31])
---@class audio.models.Wav2Letter: nn.Module
---@field acoustic_model nn.Module  the layers
---@overload fun(num_classes?: integer, input_type?: string, num_features?: integer): nn.Module
local Wav2Letter = class.class("audio.models.Wav2Letter", nn.Module)

local take = args.signature [[audio.models.Wav2Letter(num_classes: count = 40,
   input_type: string = 'waveform', num_features: count = 1)]]

local function add(net, inputs, outputs, size, stride, padding)
   net:append(nn.Conv1d(inputs, outputs, size, {stride = stride, padding = padding}))
   net:append(nn.ReLU {inplace = true})
end

function Wav2Letter:__init(...)
   local a = take(...)
   local is_wave = a.input_type == "waveform"
   if not is_wave and a.input_type ~= "power_spectrum" and a.input_type ~= "mfcc" then
      args.refuse("audio.models.Wav2Letter", "input_type",
         '"waveform", "power_spectrum" or "mfcc"', a.input_type)
   end
   local net = nn.Sequential()
   add(net, is_wave and 250 or a.num_features, 250, 48, 2, 23)
   for _ = 1, 7 do add(net, 250, 250, 7, 1, 3) end
   add(net, 250, 2000, 32, 1, 16)
   add(net, 2000, 2000, 1, 1, 0)
   add(net, 2000, a.num_classes, 1, 1, 0)
   if is_wave then
      local first = nn.Sequential()
      add(first, a.num_features, 250, 250, 160, 45)
      net = nn.Sequential(first, net)
   end
   self.acoustic_model = net
end

function Wav2Letter:forward(x) return nn.functional.log_softmax(self.acoustic_model(x), 2) end

return Wav2Letter
