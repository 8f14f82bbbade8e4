-- whisper.lua - Whisper (Radford et al., 2022): a transformer that transcribes mel spectrograms to
-- tokens. Weights and sizes have the names of Hugging Face's transformers.

local torch = require "tlua"
local args = require "tlua.args"
local checks = require "tlua.audio.checks"
local class = require "tlua.class"

local nn = torch.nn
local F = nn.functional

local M = {}

local Attention = class.class("audio.models.WhisperAttention", nn.Module)

function Attention:__init(dim, heads)
   self.num_heads = heads
   self.k_proj = nn.Linear(dim, dim, {bias = false})
   self.v_proj, self.q_proj, self.out_proj = nn.Linear(dim, dim), nn.Linear(dim, dim),
      nn.Linear(dim, dim)
end

-- Computes the keys and values of x, (batch, heads, length, features).
function Attention:remember(x)
   local function split(y)
      return y:view(y:size(1), y:size(2), self.num_heads, -1):transpose(2, 3)
   end
   return split(self.k_proj(x)), split(self.v_proj(x))
end

function Attention:forward(x, keys, values, is_causal)
   local batch, length, dim = table.unpack(x.shape)
   local q = self.q_proj(x):view(batch, length, self.num_heads, -1):transpose(2, 3)
   local y = F.scaled_dot_product_attention(q, keys, values, {is_causal = is_causal})
   return self.out_proj(y:transpose(2, 3):reshape(batch, length, dim))
end

local Layer = class.class("audio.models.WhisperLayer", nn.Module)

function Layer:__init(dim, heads, hidden, is_decoder)
   self.self_attn = Attention(dim, heads)
   self.self_attn_layer_norm = nn.LayerNorm(dim)
   if is_decoder then
      self.encoder_attn = Attention(dim, heads)
      self.encoder_attn_layer_norm = nn.LayerNorm(dim)
   end
   self.fc1, self.fc2 = nn.Linear(dim, hidden), nn.Linear(hidden, dim)
   self.final_layer_norm = nn.LayerNorm(dim)
end

-- `cache` keeps the keys and values of earlier tokens, and those of the encoder's states.
function Layer:forward(x, states, cache)
   local y = self.self_attn_layer_norm(x)
   local keys, values = self.self_attn:remember(y)
   if cache and cache.keys then
      keys, values = torch.cat({cache.keys, keys}, 3), torch.cat({cache.values, values}, 3)
   end
   x = x + self.self_attn(y, keys, values, states ~= nil and y:size(2) > 1)
   if states then
      local far, facts
      if cache then
         if not cache.far then cache.far, cache.facts = self.encoder_attn:remember(states) end
         cache.keys, cache.values = keys, values
         far, facts = cache.far, cache.facts
      else
         far, facts = self.encoder_attn:remember(states)
      end
      x = x + self.encoder_attn(self.encoder_attn_layer_norm(x), far, facts, false)
   end
   return x + self.fc2(F.gelu(self.fc1(self.final_layer_norm(x))))
end

local function layers(n, ...)
   local list = {}
   for i = 1, n do list[i] = Layer(...) end
   return nn.ModuleList(list)
end

local Encoder = class.class("audio.models.WhisperEncoder", nn.Module)

function Encoder:__init(c)
   self.conv1 = nn.Conv1d(c.num_mel_bins, c.d_model, 3, {padding = 1})
   self.conv2 = nn.Conv1d(c.d_model, c.d_model, 3, {stride = 2, padding = 1})
   self.embed_positions = nn.Embedding(c.max_source_positions, c.d_model)
   self.layers = layers(c.encoder_layers, c.d_model, c.encoder_attention_heads, c.encoder_ffn_dim,
      false)
   self.layer_norm = nn.LayerNorm(c.d_model)
end

function Encoder:forward(features)
   local x = F.gelu(self.conv2(F.gelu(self.conv1(features)))):transpose(2, 3)
   x = x + self.embed_positions.weight
   for _, layer in ipairs(self.layers) do x = layer(x) end
   return self.layer_norm(x)
end

local Decoder = class.class("audio.models.WhisperDecoder", nn.Module)

function Decoder:__init(c)
   self.embed_tokens = nn.Embedding(c.vocab_size, c.d_model)
   self.embed_positions = nn.Embedding(c.max_target_positions, c.d_model)
   self.layers = layers(c.decoder_layers, c.d_model, c.decoder_attention_heads, c.decoder_ffn_dim,
      true)
   self.layer_norm = nn.LayerNorm(c.d_model)
end

function Decoder:forward(tokens, states, caches)
   local first = caches and caches.length or 0
   local n = tokens:size(2)
   local x = self.embed_tokens(tokens) + self.embed_positions.weight:narrow(1, first + 1, n)
   for i, layer in ipairs(self.layers) do x = layer(x, states, caches and caches[i]) end
   if caches then caches.length = first + n end
   return self.layer_norm(x)
end

--- Recognises speech. A call takes features (batch, num_mel_bins, frames) and tokens (batch,
--- length) from 1. It returns the logits of the next tokens. The sizes and the weights have the
--- names of Hugging Face's config.json and files.
---
---     local model = torch.audio.models.Whisper {d_model = 16, vocab_size = 20,
---        encoder_layers = 1, decoder_layers = 1, encoder_attention_heads = 2,
---        decoder_attention_heads = 2, encoder_ffn_dim = 16, decoder_ffn_dim = 16,
---        num_mel_bins = 8, max_source_positions = 10, max_target_positions = 12}
---     print(model(torch.randn(1, 8, 20), torch.tensor {{1, 2, 3}}).shape)
---     --> torch.Size([1, 3, 20])
---@class audio.models.Whisper: nn.Module
---@field config table  the sizes
---@overload fun(config?: table): nn.Module
M.Whisper = class.class("audio.models.Whisper", nn.Module)

local take = args.signature [[audio.models.Whisper(d_model: count = 384, vocab_size: count = 51865,
   encoder_layers: layers = 4, decoder_layers: layers = 4, encoder_attention_heads: count = 6,
   decoder_attention_heads: count = 6, encoder_ffn_dim: count = 1536,
   decoder_ffn_dim: count = 1536, num_mel_bins: count = 80, max_source_positions: count = 1500,
   max_target_positions: count = 448)]]

function M.Whisper:__init(...)
   local c = take(...)
   for _, name in ipairs {"encoder_attention_heads", "decoder_attention_heads"} do
      if c[name] < 1 or c.d_model % c[name] ~= 0 then
         args.refuse("audio.models.Whisper", name, ("a divisor of d_model, %d"):format(c.d_model),
            c[name])
      end
   end
   self.config = c
   self.model = nn.Module()
   self.model.encoder, self.model.decoder = Encoder(c), Decoder(c)
   self.proj_out = nn.Linear(c.d_model, c.vocab_size, {bias = false})
   self.proj_out.weight = self.model.decoder.embed_tokens.weight
end

-- Checks the arguments of a call of the method `name`. `tokens` has one row of tokens for each
-- example.
local function check(name, self, features, tokens)
   local c = self.config
   if not torch.is_tensor(features) or features:dim() ~= 3 or features:size(2) ~= c.num_mel_bins
      or features:size(3) ~= 2 * c.max_source_positions then
      args.refuse("audio.models.Whisper" .. name, "features", ("a tensor of shape (batch, %d, %d)")
         :format(c.num_mel_bins, 2 * c.max_source_positions), features)
   end
   if not torch.is_tensor(tokens) or tokens:dim() ~= 2 or tokens:is_floating_point()
      or tokens:size(1) ~= features:size(1) or tokens:size(2) < 1
      or tokens:size(2) > c.max_target_positions then
      args.refuse("audio.models.Whisper" .. name, "tokens", ("integers of shape (%d, 1 to %d)")
         :format(features:size(1), c.max_target_positions), tokens)
   end
end

function M.Whisper:forward(features, tokens)
   check("", self, features, tokens)
   return self.proj_out(self.model.decoder(tokens, self.model.encoder(features)))
end

local take_generate = args.signature [[audio.models.Whisper.generate(features: tensor,
   tokens: any, eos: integer, max_new_tokens: count?)]]

--- Continues `tokens` with the most probable token at each step. It ends after the token `eos`,
--- after max_new_tokens new tokens, or when the list has max_target_positions tokens.
---@param features Tensor  (1, num_mel_bins, frames)
---@param tokens integer[]|Tensor  the first tokens, such as start, language and task
---@param eos integer  the token of the end
---@param max_new_tokens? integer  the largest number of further tokens
---@return integer[] tokens  `tokens` followed by the new tokens
function M.Whisper:generate(...)
   local title <const> = "audio.models.Whisper.generate"
   local a = take_generate(...)
   local features, eos, max_new_tokens = a.features, a.eos, a.max_new_tokens
   local most = self.config.max_target_positions
   if torch.is_tensor(a.tokens) then a.tokens = a.tokens:reshape(-1):tolist() end
   if type(a.tokens) ~= "table" then
      args.refuse(title, "tokens", "a list or a tensor of integers", a.tokens)
   end
   local list = table.move(a.tokens, 1, #a.tokens, 1, {})
   for i, token in ipairs(list) do
      local whole = math.type(token) and math.tointeger(token)
      if not whole then args.refuse(title, ("tokens[%d]"):format(i), "an integer", token) end
      if whole < 1 or whole > self.config.vocab_size then
         args.refuse(title, ("tokens[%d]"):format(i), ("a token from 1 to %d"):format(
            self.config.vocab_size), token)
      end
      list[i] = whole
   end
   if #list < 1 or #list > most then
      args.refuse(title, "tokens", ("1 to %d tokens"):format(most), a.tokens)
   end
   if features:size(1) ~= 1 then
      args.refuse(title, "features", "the features of one waveform", features)
   end
   check(".generate", self, features, torch.tensor({list}, {dtype = "int64"}))
   return torch.no_grad(function()
      local states = self.model.encoder(features)
      local caches = {length = 0}
      for i = 1, self.config.decoder_layers do caches[i] = {} end
      local last = torch.tensor({list}, {device = features.device})
      for _ = 1, math.min(max_new_tokens or most, most - #list) do
         local y = self.model.decoder(last, states, caches)
         local token = self.proj_out(y:select(2, -1)):argmax(-1):item()
         list[#list + 1] = token
         if token == eos then break end
         last = torch.tensor({{token}}, {device = features.device})
      end
      return list
   end)
end

local SECONDS <const>, RATE <const> = 30, 16000

local take_features = args.signature [[audio.models.whisper_features(waveform: tensor,
   sample_rate: count = 16000, n_mels: count = 80)]]

--- Returns Whisper's features of waveforms that have 16,000 samples per second. The features are
--- log-mel spectra of 30 seconds. A longer waveform is cut off, and a shorter one is padded with
--- silence.
---
---     local features = torch.audio.models.whisper_features(torch.zeros(1, 16000))
---     print(features.shape)
---     --> torch.Size([1, 80, 3000])
---@param waveform Tensor  (batch, time) or (time)
---@param sample_rate? integer  16000; any other rate is an error
---@param n_mels? integer  80 by default, 128 for Whisper large v3
---@return Tensor  (batch, n_mels, 3000)
function M.whisper_features(...)
   local title, a = "audio.models.whisper_features", take_features(...)
   local waveform = a.waveform
   checks.waveform(title, waveform)
   if a.sample_rate ~= RATE then
      args.refuse(title, "sample_rate", ("%d samples per second, to which functional.resample "
         .. "converts"):format(RATE), a.sample_rate)
   end
   local functional = torch.audio.functional
   local x = waveform:dim() == 1 and waveform:unsqueeze(1) or waveform
   local n = SECONDS * RATE
   x = x:size(-1) > n and x:narrow(-1, 1, n) or F.pad(x, {0, n - x:size(-1)})
   local window = torch.hann_window(400, {device = x.device, dtype = x.dtype})
   local power = functional.spectrogram(x, 0, window, 400, 160, 400, 2):narrow(-1, 1, n // 160)
   local bands = functional.melscale_fbanks(201, 0, RATE / 2, a.n_mels, RATE, "slaney", "slaney")
   local mel = bands:t():to(x.device):to(x.dtype):matmul(power):clamp(1e-10):log10()
   local largest = mel:amax({-2, -1}, {keepdim = true})
   return (torch.maximum(mel, largest - 8) + 4) / 4
end

return M
