-- preference.lua - losses for fine-tuning on preferences between answers by direct preference
-- optimization (DPO: Rafailov et al., 2023), with TRL's names. The function `pack` puts texts into
-- rows of equal length.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local F = torch.nn.functional

local M = {}

local title_logps <const> = "text.preference.sequence_logps"

--- Returns the log-probability of each sequence's labels, (B). It is the sum of the
--- log-probabilities of all labels; the logits at a position predict the label at the next
--- position. Labels of -100 and the labels in the first column, which no logits predict, are
--- ignored.
---
---     local logits = torch.zeros(1, 3, 4)
---     local labels = torch.tensor {{-100, 2, 3}}
---     print(torch.text.preference.sequence_logps(logits, labels))
---     --> tensor([-2.7726])
---@param logits Tensor  (B, S, V)
---@param labels Tensor  (B, S): token numbers from 1
---@param options? {average: boolean}  average: divide by the number of labels; false by default
---@return Tensor
function M.sequence_logps(logits, labels, options)
   args.check_options(title_logps, options, "average")
   if not torch.is_tensor(logits) or logits:dim() ~= 3 or not logits:is_floating_point() then
      args.refuse(title_logps, "logits", "a tensor of shape (B, S, V)", logits)
   end
   local batch, length, count = table.unpack(logits.shape)
   if not torch.is_tensor(labels) or labels:is_floating_point() or labels:dim() ~= 2
      or labels:size(1) ~= batch or labels:size(2) ~= length or length < 2 then
      args.refuse(title_logps, "labels",
         ("token numbers of shape (%d, %d), at least two in a row"):format(batch, length), labels)
   end
   local shown = logits:narrow(2, 1, length - 1):reshape(-1, count)
   local wanted = labels:narrow(2, 2, length - 1):reshape(-1)
   local losses = F.cross_entropy(shown:float(), wanted, {reduction = "none", ignore_index = -100})
   local sums = -losses:view(batch, length - 1):sum(2)
   local counts = wanted:view(batch, length - 1):ne(-100):sum(2)
   if counts:eq(0):any():item() then
      torch.raise(title_logps .. ": labels: expected a label in each row after the first column, "
         .. "got a row of -100")
   end
   return options and options.average and sums / counts or sums
end

local loss_types <const> = {sigmoid = true, hinge = true, ipo = true}

--- Returns DPO's loss of each pair of answers, (B), and the rewards of both answers, which have no
--- gradient. The arguments are log-probabilities (B) that sequence_logps has computed. The loss
--- types are "sigmoid" (Rafailov et al., 2023), "hinge" (SLiC: Zhao et al., 2023) and "ipo" (Azar
--- et al., 2023, which needs averages).
---
---     local new, old = torch.tensor {-1.0}, torch.tensor {-2.0}
---     local loss = torch.text.preference.dpo_loss(new, old, old, old, {beta = 1})
---     print(loss)
---     --> tensor([0.3133])
---@param policy_chosen_logps Tensor  of the chosen answers by the trained model, (B)
---@param policy_rejected_logps Tensor  of the rejected answers by the trained model, (B)
---@param reference_chosen_logps Tensor  of the chosen answers by the reference model, (B)
---@param reference_rejected_logps Tensor  of the rejected answers by the reference model, (B)
---@param options? {beta: number, label_smoothing: number, loss_type: string}  beta: 0.1 by default;
--- label_smoothing: the expected share of pairs in which the chosen and the rejected answer are
--- swapped by mistake, from 0 to below 0.5, for "sigmoid"; loss_type: "sigmoid" by default
---@return Tensor losses
---@return Tensor chosen_rewards
---@return Tensor rejected_rewards
function M.dpo_loss(policy_chosen_logps, policy_rejected_logps, reference_chosen_logps,
   reference_rejected_logps, options)
   local title = "text.preference.dpo_loss"
   local o = args.over_defaults(title, options or {},
      {beta = 0.1, label_smoothing = 0.0, loss_type = "sigmoid"}, {}, {})
   local given = {policy_chosen_logps, policy_rejected_logps, reference_chosen_logps,
      reference_rejected_logps}
   for i, name in ipairs {"policy_chosen_logps", "policy_rejected_logps", "reference_chosen_logps",
      "reference_rejected_logps"} do
      local x = given[i]
      if not torch.is_tensor(x) or x:dim() ~= 1 or not x:is_floating_point()
         or x:numel() ~= given[1]:numel() then
         args.refuse(title, name, i == 1 and "logarithms of probabilities of shape (B)"
            or ("%d logarithms of probabilities"):format(given[1]:numel()), x)
      end
   end
   if not (o.beta > 0 and o.beta < math.huge) then
      args.refuse(title, "beta", "a positive number", o.beta)
   end
   if not (o.label_smoothing >= 0 and o.label_smoothing < 0.5) then
      args.refuse(title, "label_smoothing", "a number from 0 to below 0.5", o.label_smoothing)
   end
   if not loss_types[o.loss_type] then
      args.refuse(title, "loss_type", '"sigmoid", "hinge" or "ipo"', o.loss_type)
   end
   if o.label_smoothing > 0 and o.loss_type ~= "sigmoid" then
      args.refuse(title, "label_smoothing", '0 for loss_type "' .. o.loss_type .. '"',
         o.label_smoothing)
   end
   local chosen = policy_chosen_logps - reference_chosen_logps
   local rejected = policy_rejected_logps - reference_rejected_logps
   local margin = chosen - rejected
   local losses
   if o.loss_type == "sigmoid" then
      losses = F.logsigmoid(margin * o.beta) * (o.label_smoothing - 1)
      if o.label_smoothing > 0 then
         losses = losses - F.logsigmoid(margin * -o.beta) * o.label_smoothing
      end
   elseif o.loss_type == "hinge" then
      losses = F.relu(1 - margin * o.beta)
   else
      losses = (margin - 1 / (2 * o.beta)) ^ 2
   end
   return losses, (chosen * o.beta):detach(), (rejected * o.beta):detach()
end

local function check_batch(title, name, batch)
   if type(batch) ~= "table" or not torch.is_tensor(batch.input_ids)
      or not torch.is_tensor(batch.labels) then
      args.refuse(title, name, "a table with input_ids, labels and perhaps attention_mask", batch)
   end
end

-- Returns the log-probabilities that a model gives to a batch's labels.
local function logps(model, batch, average)
   local logits = model(batch.input_ids, {attention_mask = batch.attention_mask}).logits
   local extra = logits:size(2) - batch.input_ids:size(2)
   if extra > 0 then logits = logits:narrow(2, extra + 1, batch.input_ids:size(2)) end
   return M.sequence_logps(logits, batch.labels, {average = average})
end

--- Computes DPO's mean loss for a model and a batch of pairs of answers. Without a reference model,
--- the reference is the same model with its adapters disabled, which needs no additional memory.
---
---     local config = {model_type = "gpt2", n_embd = 8, n_head = 2, n_layer = 1}
---     local base = torch.text.from_config(config)
---     local model = torch.text.peft.get_peft_model(base):eval()
---     local chosen = {input_ids = torch.tensor {{5, 6, 7}},
---        labels = torch.tensor {{-100, 6, 7}}}
---     local rejected = {input_ids = torch.tensor {{5, 8, 9}},
---        labels = torch.tensor {{-100, 8, 9}}}
---     local loss = torch.text.preference.dpo(model, chosen, rejected)
---     print(("%.4f"):format(loss:item()))
---     --> 0.6931
---@param model nn.Module  a language model, or one of peft
---@param chosen table<string, Tensor>  input_ids, labels (B, S), optionally attention_mask; labels
--- are -100 for the tokens of the question and of padding
---@param rejected table<string, Tensor>  the same for the rejected answers
---@param options? {reference: nn.Module, beta: number, label_smoothing: number, loss_type: string}
--- as in dpo_loss
---@return Tensor loss
---@return table metrics  mean `chosen_reward`, `rejected_reward` and the share `accuracy` of pairs
--- whose chosen answer has the larger reward, as numbers
function M.dpo(model, chosen, rejected, options)
   local title = "text.preference.dpo"
   args.check_options(title, options, "reference", "beta", "label_smoothing", "loss_type")
   check_batch(title, "chosen", chosen)
   check_batch(title, "rejected", rejected)
   local o = {}
   for key, value in pairs(options or {}) do o[key] = value end
   local reference = o.reference
   o.reference = nil
   local kind = torch.type(model)
   local is_peft = kind == "text.PeftModel" or kind == "text.PromptModel"
   if reference == nil and not is_peft then
      args.refuse(title, "reference", "a model, since the trained one has no adapters", nil)
   end
   if reference ~= nil and not class.isinstance(reference, torch.nn.Module) then
      args.refuse(title, "reference", "a model", reference)
   end
   local average = o.loss_type == "ipo"
   local function of_reference()
      return torch.no_grad(function()
         return logps(reference or model, chosen, average),
            logps(reference or model, rejected, average)
      end)
   end
   local old_chosen, old_rejected
   if reference then
      old_chosen, old_rejected = of_reference()
   else
      old_chosen, old_rejected = model:disable_adapter(of_reference)
   end
   local losses, good, bad = M.dpo_loss(logps(model, chosen, average),
      logps(model, rejected, average), old_chosen, old_rejected, o)
   return losses:mean(), {
      chosen_reward = good:mean():item(), rejected_reward = bad:mean():item(),
      accuracy = good:gt(bad):float():mean():item(),
   }
end

--- Concatenates texts and cuts them into rows of equal length, for training without padding. An end
--- token follows each text. A text may continue in the next row. Tokens that do not fill the last
--- row are dropped.
---
---     local rows = torch.text.preference.pack({{5, 6}, {7, 8, 9}}, 3, 1)
---     print(rows:flatten())
---     --> tensor([5, 6, 1, 7, 8, 9])
---@param texts integer[][]  token numbers from 1
---@param length integer  the number of tokens in a row
---@param eos_token_id integer  the token after each text
---@return Tensor  int64 (rows, length)
function M.pack(texts, length, eos_token_id)
   local title = "text.preference.pack"
   local function is_token(x) return math.type(x) == "integer" and x >= 1 end
   if type(texts) ~= "table" then
      args.refuse(title, "texts", "a list of lists of tokens", texts)
   end
   if not is_token(length) then args.refuse(title, "length", "a positive integer", length) end
   if not is_token(eos_token_id) then
      args.refuse(title, "eos_token_id", "a token number from 1", eos_token_id)
   end
   local all, count = {}, 0
   for i in pairs(texts) do
      if math.type(i) == "integer" and i > count then count = i end
   end
   for i = 1, count do
      local text, name = texts[i], ("texts[%d]"):format(i)
      if type(text) ~= "table" then args.refuse(title, name, "a list of tokens", text) end
      for k, token in ipairs(text) do
         if not is_token(token) then
            args.refuse(title, ("%s[%d]"):format(name, k), "a token number from 1", token)
         end
         all[#all + 1] = token
      end
      all[#all + 1] = eos_token_id
   end
   local rows = #all // length
   if rows == 0 then
      torch.raise(("%s: length: expected at most the %d tokens of all texts, got %d"):format(title,
         #all, length))
   end
   return torch.tensor(table.move(all, 1, rows * length, 1, {}), {dtype = "int64"})
      :view(rows, length)
end

return M
