-- embeddings.lua - finds the embedding of a model's tokens and the layer that computes the logits,
-- and changes the number of tokens that a model knows.

local torch = require "tlua"
local args = require "tlua.args"

local nn = torch.nn

local M = {}

-- Sets of the last parts of the names that these layers have in the families of models.
local inputs <const> = {embed_tokens = true, word_embeddings = true, wte = true, embed_in = true,
   shared = true, token_embedding = true}
local outputs <const> = {lm_head = true, decoder = true, vocab_projector = true,
   generator_lm_head = true, embed_out = true}

-- Calls visit(module, name) for each layer of a model whose last part of the name is in the set
-- `names` and that is of the given class.
local function each_layer(model, names, kind, visit)
   for path, module in model:named_modules() do
      local name = path:match "[^.]*$"
      if names[name] and torch.type(module) == kind then visit(module, name) end
   end
end

--- Returns the embedding of the tokens, or nil if the model has none.
function M.input_of(model)
   local found
   each_layer(model, inputs, "nn.Embedding", function(module) found = found or module end)
   return found
end

--- Returns the layer that computes the logits of the tokens, or nil if the model has none.
function M.output_of(model)
   local found
   each_layer(model, outputs, "nn.Linear", function(module) found = found or module end)
   return found
end

-- Returns a copy of a tensor with `count` elements along dimension `dim`. New elements are the mean
-- of the old ones.
local function resized(tensor, dim, count)
   local old = tensor:size(dim)
   local kept = tensor:detach():narrow(dim, 1, math.min(old, count))
   if count <= old then return kept:clone() end
   local mean = tensor:detach():mean(dim, true)
   local sizes = {table.unpack(tensor.shape)}
   sizes[dim] = count - old
   return torch.cat({kept, mean:expand(sizes)}, dim)
end

-- Replaces a parameter of a module by its resized copy.
local function replace(module, name, count)
   local old = module[name]
   local new = torch.no_grad(function() return resized(old, 1, count) end)
   module[name] = nn.Parameter(new, {requires_grad = old.requires_grad})
end

-- Resizes the numbers that a module adds to the logits, if it has such numbers. `old` is the number
-- of tokens before.
local function resize_bias(module, old, count)
   local bias = rawget(module, "bias")
   if torch.is_tensor(bias) and bias:dim() == 1 and bias:size(1) == old then
      replace(module, "bias", count)
   end
   local final = rawget(module, "final_logits_bias")
   if torch.is_tensor(final) then module.final_logits_bias = resized(final, 2, count) end
end

--- Changes the number of tokens to `count`. `title` is the function's name in errors. Returns the
--- embedding of the tokens.
function M.resize(title, model, count)
   local input, old = M.input_of(model), model.config.vocab_size
   if not input or input.num_embeddings ~= old then
      torch.raise(("%s: %s has no embedding of config.vocab_size tokens"):format(title,
         torch.type(model)))
   end
   if count < 1 then args.refuse(title, "new_num_tokens", "a count of at least 1", count) end
   if input.padding_idx and input.padding_idx > count then
      args.refuse(title, "new_num_tokens", ("at least %d, the number of the padding token")
         :format(input.padding_idx), count)
   end
   each_layer(model, inputs, "nn.Embedding", function(module)
      replace(module, "weight", count)
      module.num_embeddings = count
   end)
   each_layer(model, outputs, "nn.Linear", function(module)
      replace(module, "weight", count)
      resize_bias(module, old, count)
      module.out_features = count
   end)
   -- In some families, the bias belongs to the module that contains the layer.
   for _, module in ipairs(model:modules()) do
      for name in pairs(outputs) do
         if torch.type(module[name]) == "nn.Linear" then resize_bias(module, old, count) end
      end
   end
   model.config.vocab_size = count
   model:tie_weights()
   return input
end

return M
