-- deepspeech.lua - DeepSpeech (Hannun et al., 2014): linear layers before and after a recurrent
-- layer.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local nn = torch.nn
local F = nn.functional

local Dense = class.class("audio.models.DeepSpeechDense", nn.Module)

function Dense:__init(n_feature, n_hidden, dropout)
   self.fc = nn.Linear(n_feature, n_hidden)
   self.dropout = dropout
end

function Dense:forward(x)
   x = self.fc(x):clamp(0, 20)
   return self.dropout > 0 and F.dropout(x, self.dropout, self.training) or x
end

--- Recognises characters in spectra. A call takes (batch, 1, time, features) and returns
--- log-probabilities (batch, time, classes).
---
---     local model = torch.audio.models.DeepSpeech(40, 32, 29)
---     print(model(torch.randn(2, 1, 10, 40)).shape)
---     --> torch.Size([2, 10, 29])
---@class audio.models.DeepSpeech: nn.Module
---@field bi_rnn nn.Module  the recurrent layer
---@field out nn.Module  the last layer
---@overload fun(n_feature: integer, n_hidden?: integer, options?: table): nn.Module
local DeepSpeech = class.class("audio.models.DeepSpeech", nn.Module)

local take = args.signature [[audio.models.DeepSpeech(n_feature: count, n_hidden: count = 2048,
   n_class: count = 40, dropout: number = 0)]]

function DeepSpeech:__init(...)
   local a = take(...)
   self.n_hidden = a.n_hidden
   self.fc1 = Dense(a.n_feature, a.n_hidden, a.dropout)
   self.fc2 = Dense(a.n_hidden, a.n_hidden, a.dropout)
   self.fc3 = Dense(a.n_hidden, a.n_hidden, a.dropout)
   self.bi_rnn = nn.RNN(a.n_hidden, a.n_hidden, {nonlinearity = "relu", bidirectional = true})
   self.fc4 = Dense(a.n_hidden, a.n_hidden, a.dropout)
   self.out = nn.Linear(a.n_hidden, a.n_class)
end

function DeepSpeech:forward(x)
   if x:dim() ~= 4 or x:size(2) ~= 1 then
      args.refuse("audio.models.DeepSpeech", "x", "a tensor of shape (batch, 1, time, features)", x)
   end
   x = self.fc3(self.fc2(self.fc1(x))):squeeze(2):transpose(1, 2)
   x = self.bi_rnn(x)
   x = x:narrow(3, 1, self.n_hidden) + x:narrow(3, self.n_hidden + 1, self.n_hidden)
   return F.log_softmax(self.out(self.fc4(x)):transpose(1, 2), 3)
end

return DeepSpeech
