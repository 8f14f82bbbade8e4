-- init.lua - torch.text.models: finds the classes for a model_type, and creates models from folders
-- and configurations.
--
-- To add a family, add a file to this folder that returns its classes, and a row for it to `files`
-- below. For a family that resembles LLaMA, a call of decoder.family suffices (see mistral.lua). A
-- family that resembles BERT uses the layers of encoder.lua (see roberta.lua).

local torch = require "tlua"
local args = require "tlua.args"
local configs = require "tlua.text.models.config"
local loading = require "tlua.text.models.loading"
local suggest = require "tlua.utils.suggest"

local M = {}

-- Maps each model_type of config.json to the file with its classes.
local files = {
   gpt2 = "gpt2",
   llama = "llama", mistral = "mistral", qwen2 = "qwen", qwen3 = "qwen", mixtral = "mixtral",
   gemma = "gemma", gemma2 = "gemma", gemma3_text = "gemma", phi3 = "phi3", gpt_neox = "gpt_neox",
   olmo = "olmo", olmo2 = "olmo",
   bert = "bert", roberta = "roberta", ["xlm-roberta"] = "roberta", distilbert = "distilbert",
   electra = "electra", albert = "albert", t5 = "t5", bart = "bart",
   deberta = "deberta", ["deberta-v2"] = "deberta", vit = "vit", clip = "clip", siglip = "clip",
}

local take_none = args.signature "text.list_models()"

--- Returns the names of all model types, sorted.
---
---     print(#torch.text.list_models() > 10)
---     --> true
---@return string[]
function M.list_models(...)
   take_none(...)
   local names = {}
   for name in pairs(files) do names[#names + 1] = name end
   table.sort(names)
   return names
end

-- Returns the family for a configuration's model_type.
local function family_of(title, config)
   local kind = config.model_type
   if type(kind) ~= "string" then
      args.refuse(title, "model_type", "a string such as \"gpt2\"", kind)
   end
   if not files[kind] then
      torch.raise(("%s: there is no model_type %q%s; there are %s"):format(title, kind,
         suggest.hint(kind, files), table.concat(M.list_models(), ", ")))
   end
   return require("tlua.text.models." .. files[kind])[kind]
end

-- Maps each task to the suffixes that the names of its classes may have.
local tasks = {
   Model = {"Model"}, ForCausalLM = {"LMHeadModel", "ForCausalLM"},
   ForMaskedLM = {"ForMaskedLM"}, ForPreTraining = {"ForPreTraining"},
   ForSequenceClassification = {"ForSequenceClassification"},
   ForTokenClassification = {"ForTokenClassification"},
   ForQuestionAnswering = {"ForQuestionAnswering"},
   ForSeq2SeqLM = {"ForConditionalGeneration"},
   ForImageClassification = {"ForImageClassification"},
}

-- Returns a class of a family. `name` is the class's name, or a task such as "ForCausalLM".
local function class_of(title, family, name)
   if family.classes[name] then return family.classes[name] end
   for _, ending in ipairs(tasks[name] or {}) do
      local found = family.classes[family.name .. ending]
      if found then return found end
   end
   local names = {}
   for known in pairs(family.classes) do names[#names + 1] = known end
   table.sort(names)
   torch.raise(("%s: architecture: %s has no class %s%s; there are %s"):format(title,
      family.model_type, args.describe(name), suggest.hint(tostring(name), family.classes),
      table.concat(names, ", ")))
end

-- Returns the name of the class to create, or its task: the given architecture, or else the class
-- in config.json, or else the family's main class.
local function name_of(family, config, architecture)
   local own = config.architectures
   return architecture or type(own) == "table" and own[1] or family.main or "Model"
end

-- Creates a model on the meta device, where weights need no memory.
local function make_meta(cls, config)
   local previous = torch.get_default_device()
   torch.set_default_device "meta"
   local ok, model = pcall(cls, config)
   torch.set_default_device(previous)
   if not ok then error(model, 0) end
   return model
end

-- Fields of config.json with numbers of layers or experts, each of which has weights of its own.
local part_counts <const> = {
   "n_layer", "num_layers", "num_hidden_layers", "num_decoder_layers", "encoder_layers",
   "decoder_layers", "num_hidden_groups", "inner_group_num", "num_local_experts",
}

-- Raises an error if one of these numbers is larger than the number of tensors in the files.
-- Otherwise a damaged config.json could make the program create a model of any size. ALBERT is an
-- exception because its layers share their weights.
local function check_counts(title, folder, config, state)
   local most = 0
   for _ in pairs(state) do most = most + 1 end
   for _, part in ipairs {config, config.text_config or {}, config.vision_config or {}} do
      for _, name in ipairs(part_counts) do
         local value = type(part) == "table" and part[name]
         local is_shared = name == "num_hidden_layers" and config.model_type == "albert"
         if type(value) == "number" and value > most and not is_shared then
            torch.raise(("%s: %s/config.json: %s: expected at most %d, the number of tensors in "
               .. "the files, got %s"):format(title, folder, name, most, value))
         end
      end
   end
end

local take = args.signature [[text.from_pretrained(folder: string, architecture: string?,
   dtype: string = 'auto', device: device?, strict: boolean = true, config: table?)]]

--- Loads a model from a folder with config.json and model.safetensors (or several safetensors files
--- with an index), as Hugging Face's library saves them. Large files are memory-mapped, so that
--- weights are read when they are first used. The model is in evaluation mode. Missing, unexpected
--- and misshapen weights are an error. With strict = false, missing and misshapen weights stay
--- random, and the lists of missing and unexpected weights are returned.
---
---     local folder = os.tmpname()
---     os.remove(folder)
---     local config = {model_type = "gpt2", n_embd = 4, n_head = 2}
---     torch.text.from_config(config):save_pretrained(folder)
---     print(torch.type(torch.text.from_pretrained(folder)))
---     --> text.GPT2LMHeadModel
---@param folder string
---@param options? {architecture: string, dtype: string, device: string|torch.device, strict:
--- boolean, config: table}  architecture: a class such as "BertModel", or a suffix such as
--- "ForCausalLM"; the default is the class in config.json or else the family's main class, which is
--- a language model if the family has one; dtype: by default "auto", the dtype of the file; config:
--- fields that replace fields of config.json, such as {num_labels = 3}
---@return text.PreTrainedModel
---@return string[]? missing
---@return string[]? unexpected
function M.from_pretrained(...)
   local a, title = take(...), "text.from_pretrained"
   local given = configs.read_json(a.folder .. "/config.json")
   for key, value in pairs(a.config or {}) do given[key] = value end
   local family = family_of(title, given)
   local name = name_of(family, given, a.architecture)
   local cls = class_of(title, family, name)
   if a.dtype ~= "auto" and not pcall(torch.empty, 0, {dtype = a.dtype}) then
      args.refuse(title, "dtype", '"auto" or the name of a dtype', a.dtype)
   end
   local state = loading.read_state(a.folder)
   if a.strict then check_counts(title, a.folder, given, state) end
   local model = a.strict and make_meta(cls, given) or cls(given)
   local missing, unexpected = loading.load(model, state, a)
   model.generation_config = loading.read_generation(a.folder)
   if a.device then model:to(a.device) end
   if not a.strict and a.dtype ~= "auto" then model:to(a.dtype) end
   model:eval()
   if a.strict then return model end
   return model, missing, unexpected
end

local take_config = args.signature "text.from_config(config: table, architecture: string?)"

--- Makes a model with random weights from the fields of config.json.
---
---     local config = {model_type = "bert", hidden_size = 12}
---     local options = {architecture = "BertModel"}
---     local model = torch.text.from_config(config, options)
---     print(table.unpack(model(torch.tensor {{1, 2, 3}}).pooler_output.shape))
---     --> 1	12
---@param config table<string, any>  model_type selects the family; missing fields get the family's
--- defaults
---@param options? {architecture: string}  a class ("BertModel") or a suffix ("ForCausalLM");
--- by default the class in config.architectures, or else the family's main class
---@return text.PreTrainedModel
function M.from_config(config, options)
   local title = "text.from_config"
   local a = {config = config}
   if type(config) == "table" and type(config.config) == "table" then
      a = take_config(config)
   else
      args.check_options(title, options, "architecture")
      if type(config) ~= "table" or getmetatable(config) then
         args.refuse(title, "config", "a table", config)
      end
      a.architecture = options and options.architecture
   end
   local family = family_of(title, a.config)
   local name = name_of(family, a.config, a.architecture)
   return class_of(title, family, name)(a.config)
end

return M
