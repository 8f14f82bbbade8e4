-- mixtral.lua - Mixtral (Jiang et al., 2024): Mistral with several feed-forward networks, called
-- experts, in each layer. Each token uses the num_experts_per_tok experts with the highest scores.

local torch = require "tlua"
local class = require "tlua.class"
local configs = require "tlua.text.models.config"
local decoder = require "tlua.text.models.decoder"
local define = require "tlua.text.models.define"
local layers = require "tlua.text.models.layers"

local nn = torch.nn

local Expert = class.class("text.models.MixtralExpert", nn.Module)

function Expert:__init(config)
   local size, inner = config.hidden_size, config.intermediate_size
   self.w1 = nn.Linear(size, inner, {bias = false})
   self.w2 = nn.Linear(inner, size, {bias = false})
   self.w3 = nn.Linear(size, inner, {bias = false})
   self.act = layers.activation(config.hidden_act)
end

function Expert:forward(x) return self.w2(self.act(self.w1(x)) * self.w3(x)) end

local Experts = class.class("text.models.MixtralExperts", nn.Module)

function Experts:__init(config)
   self.used = config.num_experts_per_tok
   self.gate = nn.Linear(config.hidden_size, config.num_local_experts, {bias = false})
   self.experts = layers.list(config.num_local_experts, function() return Expert(config) end)
end

function Experts:forward(x)
   local flat = x:flatten(1, -2)
   local weights, chosen = self.gate(flat):float():softmax(-1):topk(self.used, -1)
   weights = (weights / weights:sum(-1, true)):to(x.dtype)
   local sum = torch.zeros_like(flat)
   for i, expert in ipairs(self.experts) do
      local places = chosen:eq(i):nonzero()
      if places:size(1) > 0 then
         local rows, ranks = places:select(2, 1), places:select(2, 2)
         local y = expert(flat:index_select(1, rows)) * weights[{rows, ranks}]:unsqueeze(2)
         sum = sum:index_add(1, rows, y)
      end
   end
   return sum:view_as(x)
end

return define.by_type(decoder.family {
   model_type = "mixtral", name = "Mixtral",
   defaults = {
      intermediate_size = 14336, num_key_value_heads = 8, max_position_embeddings = 131072,
      rms_norm_eps = 1e-5, num_experts_per_tok = 2, num_local_experts = 8,
      sliding_window = configs.none,
   },
   traits = {mlp = Experts, mlp_name = "block_sparse_moe"},
})
