-- vit.lua - ViT (Dosovitskiy et al., 2020), an image classifier, with Hugging Face's names of
-- weights. torch.vision has the same model with torchvision's names.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local configs = require "tlua.text.models.config"
local define = require "tlua.text.models.define"
local encoder = require "tlua.text.models.encoder"
local layers = require "tlua.text.models.layers"

local nn, F = torch.nn, torch.nn.functional

local family = define.family {
   model_type = "vit", name = "ViT", prefix = "vit", main = "ViTForImageClassification",
   defaults = {
      hidden_size = 768, num_hidden_layers = 12, num_attention_heads = 12,
      intermediate_size = 3072, hidden_act = "gelu", hidden_dropout_prob = 0,
      attention_probs_dropout_prob = 0, layer_norm_eps = 1e-12, image_size = 224, patch_size = 16,
      num_channels = 3, qkv_bias = true,
   },
   finish = function(config)
      configs.check_multiple("text.ViT", config, "hidden_size", "num_attention_heads")
      configs.check_multiple("text.ViT", config, "image_size", "patch_size")
   end,
   width = function(config) return config.hidden_size end,
   ignore = {"%.pooler%."},
}

local Patches = class.class("text.models.ViTPatches", nn.Module)

function Patches:__init(config)
   self.projection = nn.Conv2d(config.num_channels, config.hidden_size, config.patch_size,
      {stride = config.patch_size})
end

function Patches:forward(x) return self.projection(x):flatten(3):transpose(2, 3) end

local Embeddings = class.class("text.models.ViTEmbeddings", nn.Module)

function Embeddings:__init(config)
   local count = (config.image_size // config.patch_size) ^ 2 // 1 | 0
   self.cls_token = nn.Parameter(torch.zeros(1, 1, config.hidden_size))
   self.position_embeddings = nn.Parameter(torch.zeros(1, count + 1, config.hidden_size))
   self.patch_embeddings = Patches(config)
   self.dropout = nn.Dropout(config.hidden_dropout_prob)
end

function Embeddings:forward(images)
   local x = self.patch_embeddings(images)
   x = torch.cat({self.cls_token:expand(x:size(1), -1, -1), x}, 2)
   return self.dropout(x + self.position_embeddings)
end

local SelfAttention = class.class("text.models.ViTSelfAttention", nn.Module)

function SelfAttention:__init(config)
   local size, bias = config.hidden_size, {bias = config.qkv_bias}
   self.heads, self.p = config.num_attention_heads, config.attention_probs_dropout_prob
   self.query, self.key, self.value = nn.Linear(size, size, bias), nn.Linear(size, size, bias),
      nn.Linear(size, size, bias)
end

function SelfAttention:forward(x)
   local n = self.heads
   return layers.join_heads(F.scaled_dot_product_attention(layers.split_heads(self.query(x), n),
      layers.split_heads(self.key(x), n), layers.split_heads(self.value(x), n), nil,
      self.training and self.p or 0.0))
end

local Dense = class.class("text.models.ViTDense", nn.Module)

function Dense:__init(config, inputs)
   self.dense = nn.Linear(inputs, config.hidden_size)
   self.dropout = nn.Dropout(config.hidden_dropout_prob)
end

function Dense:forward(x) return self.dropout(self.dense(x)) end

local Attention = class.class("text.models.ViTAttention", nn.Module)

function Attention:__init(config)
   self.attention, self.output = SelfAttention(config), Dense(config, config.hidden_size)
end

function Attention:forward(x) return self.output(self.attention(x)) end

local Layer = class.class("text.models.ViTLayer", nn.Module)

function Layer:__init(config)
   self.attention, self.intermediate = Attention(config), encoder.Intermediate(config)
   self.output = Dense(config, config.intermediate_size)
   self.layernorm_before = encoder.norm(config.hidden_size, config)
   self.layernorm_after = encoder.norm(config.hidden_size, config)
end

function Layer:forward(x)
   x = x + self.attention(self.layernorm_before(x))
   return x + self.output(self.intermediate(self.layernorm_after(x)))
end

local Encoder = class.class("text.models.ViTEncoder", nn.Module)

function Encoder:__init(config)
   self.layer = layers.list(config.num_hidden_layers, function() return Layer(config) end)
end

local Model = family:class "Model"
Model.inputs = "image"

function Model:build(config, own)
   self.embeddings, self.encoder = Embeddings(config), Encoder(config)
   self.layernorm = encoder.norm(config.hidden_size, config)
   if own.add_pooling_layer ~= false then self.pooler = encoder.Pooler(config) end
end

function Model:compute(a)
   local images, size, config = a.pixel_values, self.config.image_size, self.config
   if images:dim() ~= 4 or images:size(2) ~= config.num_channels or images:size(3) ~= size
         or images:size(4) ~= size then
      args.refuse(torch.type(self), "pixel_values", ("images of shape (N, %d, %d, %d)"):format(
         config.num_channels, size, size), images)
   end
   local x = self.embeddings(images)
   local states = a.output_hidden_states and {x} or nil
   for _, layer in ipairs(self.encoder.layer) do
      x = layer(x)
      if states then states[#states + 1] = x end
   end
   x = self.layernorm(x)
   local pooler = rawget(self, "pooler")
   return {last_hidden_state = x, hidden_states = states, pooler_output = pooler and pooler(x)}
end

local Classifier = family:class "ForImageClassification"
Classifier.inputs = "image"

function Classifier:build(config)
   self.vit = Model(config, {add_pooling_layer = false})
   self.classifier = nn.Linear(config.hidden_size, config.num_labels)
end

function Classifier:compute(a)
   local results = self.vit(a)
   local logits = self.classifier(results.last_hidden_state:select(2, 1))
   return define.with(results, {
      logits = logits, loss = a.labels and define.class_loss(self.config, logits, a.labels),
   })
end

return define.by_type(family)
