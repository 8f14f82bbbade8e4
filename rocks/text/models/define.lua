-- define.lua - declares model families and their classes, and defines the losses of their heads.

local torch = require "tlua"
local class = require "tlua.class"
local PreTrainedModel = require "tlua.text.models.PreTrainedModel"

local nn, F = torch.nn, torch.nn.functional

local M = {}

local Family = class.class("text.models.Family")

--- Declares a family. The table has these fields: model_type, name (the first part of its classes'
--- names), prefix (the field of the base model in models with a head), defaults (of config.json),
--- finish (a function that checks and completes a configuration), main (the class that from_config
--- makes), width (a function that returns the size of the hidden states of a configuration),
--- has_types (whether models take token_type_ids), ignore (patterns of names of tensors that files
--- may contain in addition to the weights).
---@param fields table
---@return table
function M.family(fields)
   local family = Family()
   for key, value in pairs(fields) do family[key] = value end
   family.title, family.classes = "text." .. family.name, {}
   return family
end

--- Declares a class of the family. The class's name is the family's name followed by `ending`.
---@param ending string  such as "ForCausalLM"
---@param parent? table
---@return table
function Family:class(ending, parent)
   local name = self.name .. ending
   local cls = class.class("text." .. name, parent or PreTrainedModel)
   cls.family, cls.is_base = self, ending == "Model" or ending == "TextModel"
   self.classes[name] = cls
   return cls
end

--- Returns a table of the given families, with model_type as the key. The files of models return it
--- to init.lua.
---@param ... table
---@return table<string, table>
function M.by_type(...)
   local list = {}
   for _, family in ipairs {...} do list[family.model_type] = family end
   return list
end

-- Losses ----------------------------------------------------------------------------------------

-- Converts logits to float32 if they have fewer bits, because Hugging Face's library computes the
-- losses of tokens in float32.
local function precise(logits)
   return logits:element_size() < 4 and logits:float() or logits
end

--- Returns the mean cross-entropy of predicting each token from the tokens before it. Labels of
--- -100 are ignored.
---@param logits Tensor  (B, S, V)
---@param labels Tensor  (B, S)
---@return Tensor
function M.next_token_loss(logits, labels)
   local n = logits:size(2)
   return F.cross_entropy(precise(logits:narrow(2, 1, n - 1)):flatten(1, 2),
      labels:narrow(2, 2, n - 1):flatten())
end

--- Returns the mean cross-entropy over all tokens; labels of -100 are ignored.
---@param logits Tensor  (B, S, V)
---@param labels Tensor  (B, S)
---@return Tensor
function M.token_loss(logits, labels)
   return F.cross_entropy(precise(logits):flatten(1, 2), labels:flatten())
end

--- Returns the loss of a classifier. It is the mean squared error for one label, the cross-entropy
--- for integer labels, and the binary cross-entropy for floating-point labels. config.problem_type
--- overrides this choice.
---@param config table
---@param logits Tensor  (B, num_labels)
---@param labels Tensor
---@return Tensor
function M.class_loss(config, logits, labels)
   local kind = config.problem_type or config.num_labels == 1 and "regression"
      or labels:is_floating_point() and "multi_label_classification"
      or "single_label_classification"
   if kind == "regression" then
      if config.num_labels == 1 then return F.mse_loss(logits:flatten(), labels:flatten()) end
      return F.mse_loss(logits, labels)
   elseif kind == "multi_label_classification" then
      return F.binary_cross_entropy_with_logits(logits, labels)
   end
   return F.cross_entropy(logits:view(-1, config.num_labels), labels:flatten())
end

--- Returns the loss for the predicted first and last positions of answers: the mean of the
--- cross-entropies for the first and for the last position. A position beyond the text is ignored.
---@param first Tensor  (B, S)
---@param last Tensor  (B, S)
---@param a {start_positions: Tensor, end_positions: Tensor}
---@return Tensor
function M.answer_loss(first, last, a)
   local n = first:size(2)
   local function part(logits, positions)
      positions = positions:flatten()
      positions = positions:masked_fill(positions:gt(n), -100)
      return F.cross_entropy(logits, positions)
   end
   return (part(first, a.start_positions) + part(last, a.end_positions)) / 2
end

-- Heads -----------------------------------------------------------------------------------------

--- Returns the hidden states whose logits are computed.
---@param x Tensor  (B, S, D)
---@param keep? integer|Tensor  the number of last positions, or a tensor (N) of positions from 1;
--- nil or 0 for all positions
---@return Tensor
function M.kept(x, keep)
   if torch.is_tensor(keep) then return x:index_select(2, keep) end
   if keep and keep > 0 and keep < x:size(2) then return x:narrow(2, -keep, keep) end
   return x
end

--- Copies hidden_states and past_key_values from the base model's results to `own`, the results of
--- a model with a head, and returns `own`.
---@param results table
---@param own table
---@return table
function M.with(results, own)
   own.hidden_states, own.past_key_values = results.hidden_states, results.past_key_values
   return own
end

--- Declares the family's class for token classification, whose name ends in ForTokenClassification.
---@param family table
---@param base fun(config: table): nn.Module  makes the base model
---@param dropout? string  the name of the dropout's field in config
---@param field? string  the head's name, "classifier" by default
function M.token_classification(family, base, dropout, field)
   local cls = family:class "ForTokenClassification"
   cls.labels = "tokens"
   function cls:build(config)
      self[family.prefix] = base(config)
      self.dropout = nn.Dropout(config.classifier_dropout or config[dropout or ""] or 0)
      self[field or "classifier"] = nn.Linear(family.width(config), config.num_labels)
   end
   function cls:compute(a)
      local results = self[family.prefix](a)
      local logits = self[field or "classifier"](self.dropout(results.last_hidden_state))
      return M.with(results, {logits = logits, loss = a.labels and M.token_loss(logits, a.labels)})
   end
end

--- Declares the family's class for question answering, whose name ends in ForQuestionAnswering. It
--- finds the first and the last token of an answer.
---@param family table
---@param base fun(config: table): nn.Module
function M.question_answering(family, base)
   local cls = family:class "ForQuestionAnswering"
   function cls:build(config)
      self[family.prefix] = base(config)
      self.dropout = nn.Dropout(config.qa_dropout or 0)
      self.qa_outputs = nn.Linear(family.width(config), 2)
   end
   function cls:compute(a)
      local results = self[family.prefix](a)
      local scores = self.qa_outputs(self.dropout(results.last_hidden_state))
      local first, last = table.unpack(scores:unbind(-1))
      local loss
      if a.start_positions and a.end_positions then loss = M.answer_loss(first, last, a) end
      return M.with(results, {start_logits = first, end_logits = last, loss = loss})
   end
end

--- Declares a decoder's class for language modelling, whose name ends in ForCausalLM. The head may
--- share its weight with the embedding.
---@param family table
---@param base table  the class of the base model
---@param options {ending: string?, head: string?, embedding: string}  ending: the suffix of the
--- class's name; head: the name of the head's field; embedding: the path of the embedding in the
--- base model
function M.causal_lm(family, base, options)
   local cls = family:class(options.ending or "ForCausalLM")
   local head = options.head or "lm_head"
   cls.labels, cls.can_generate = "tokens", true
   family.main = family.name .. (options.ending or "ForCausalLM")
   function cls:build(config)
      self[family.prefix] = base(config)
      self[head] = nn.Linear(family.width(config), config.vocab_size, {bias = false})
   end
   function cls:tied_weights()
      if not self.config.tie_word_embeddings then return {} end
      return {{head .. ".weight", family.prefix .. "." .. options.embedding .. ".weight"}}
   end
   function cls:embed(ids)
      local part = self[family.prefix]
      return part.embed and part:embed(ids) or part[options.embedding](ids)
   end
   function cls:compute(a)
      local results = self[family.prefix](a)
      local logits = self[head](M.kept(results.last_hidden_state, a.logits_to_keep))
      local bound = self.config.final_logit_softcapping
      if bound then logits = (logits / bound):tanh() * bound end
      return M.with(results, {
         logits = logits, loss = a.labels and M.next_token_loss(logits, a.labels),
      })
   end
   return cls
end

--- Declares a decoder's class for text classification, whose name ends in
--- ForSequenceClassification. It computes the scores of a text from the hidden state of the last
--- token that is not padding.
---@param family table
---@param base table
function M.last_token_classification(family, base)
   local cls = family:class "ForSequenceClassification"
   function cls:build(config)
      self[family.prefix] = base(config)
      self.score = nn.Linear(family.width(config), config.num_labels, {bias = false})
   end
   function cls:compute(a)
      local results = self[family.prefix](a)
      local scores, pad = self.score(results.last_hidden_state), self.config.pad_token_id
      local n = scores:size(2)
      local last = torch.full({scores:size(1)}, n, {dtype = "int64", device = scores.device})
      if pad and a.input_ids then
         local places = torch.arange(1, n + 1, {dtype = "int64", device = scores.device})
         last = (places * a.input_ids:ne(pad + 1):long()):max(2):clamp {min = 1}
      elseif scores:size(1) > 1 then
         torch.raise(("text.%sForSequenceClassification: config.pad_token_id: expected a number "
            .. "for batches of more than one text"):format(family.name))
      end
      local rows = torch.arange(1, scores:size(1) + 1, {dtype = "int64", device = scores.device})
      local logits = scores[{rows, last}]
      return M.with(results, {
         logits = logits, loss = a.labels and M.class_loss(self.config, logits, a.labels),
      })
   end
end

return M
