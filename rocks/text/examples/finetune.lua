-- Fine-tunes a language model with LoRA, and prints the text that it generates before and after:
--
--    tlua rocks/text/examples/finetune.lua --folder FOLDER --text FILE    a model of Hugging Face
--    tlua rocks/text/examples/finetune.lua                                (a minute on a CPU)
--
-- Without a folder, the program first trains a small LLaMA on English text, the README. The
-- adapters then learn Lua code from the sources of this package.
local torch = require "tlua"
local text = torch.text

local parser = torch.utils.options("finetune.lua", "Fine-tunes a language model with LoRA.")
parser:option("--folder", "a model's folder with tokenizer.json", "")
parser:option("--text", "the file to learn", "rocks/text/generation/init.lua")
parser:option("--base", "without a folder: the file that the model learns before", "README.md")
parser:option("--base-steps", "without a folder: steps on that file", 200)
parser:option("--steps", "steps on the text", 160)
parser:option("--batch", "sequences in a step", 8)
parser:option("--length", "tokens in a sequence", 48)
parser:option("--rank", "of the adapters", 16)
parser:option("--lr", "learning rate", 1e-2)
parser:option("--prompt", "the beginning of the generated text", "local function ")
parser:option("--save", "where the adapters go", "lora-adapter")
local opt = parser:parse()

local function read(path)
   local file <close> = assert(io.open(path, "rb"))
   return file:read "a"
end

torch.manual_seed(1)
local tokenizer, model

-- Trains `parameters` of the model `trained` on a text.
local function train(trained, parameters, content, steps, lr)
   local tokens = torch.tensor(tokenizer:encode(content))
   local adam = torch.optim.AdamW(parameters, {lr = lr, weight_decay = 0.0})
   trained:train()
   local started, sum = torch.io.clock(), 0
   for step = 1, steps do
      local starts = torch.randint(1, #tokens - opt.length + 1, {opt.batch, 1})
      local ids = tokens[starts + torch.arange(opt.length)]
      local loss = trained(ids, {labels = ids}).loss
      adam:zero_grad()
      loss:backward()
      adam:step()
      sum = sum + loss:item()
      if step % 20 == 0 then
         print(("step %d  loss %.3f  %.0f s"):format(step, sum / 20, torch.io.clock() - started))
         sum = 0
      end
   end
   trained:eval()
end

local function write(what)
   local prompt = torch.tensor {tokenizer:encode(opt.prompt)}
   local ids = what:generate(prompt, {max_new_tokens = 60, no_repeat_ngram_size = 3,
      eos_token_id = {}})
   print((tokenizer:decode(ids[1]:tolist()):gsub("%s+", " ")))
end

if opt.folder ~= "" then
   local own = assert(text.Tokenizer.from_file(opt.folder .. "/tokenizer.json"))
   tokenizer = {
      encode = function(_, content) return own:encode(content).ids end,
      decode = function(_, ids) return own:decode(ids) end,
   }
   model = text.from_pretrained(opt.folder, {architecture = "ForCausalLM", dtype = "float32"})
else
   local content = read(opt.base)
   tokenizer = text.BPE.train(content .. read(opt.text), {vocab_size = 512})
   model = text.from_config {
      model_type = "llama", vocab_size = 512, hidden_size = 96, intermediate_size = 256,
      num_hidden_layers = 3, num_attention_heads = 6, num_key_value_heads = 2,
   }
   print(("a model of %d parameters learns %s"):format(model:num_parameters(), opt.base))
   train(model, model:parameters(), content, opt.base_steps, 3e-3)
end

print "before:"
write(model)
local tuned = text.peft.get_peft_model(model, {
   r = opt.rank, lora_alpha = 2 * opt.rank, target_modules = "all-linear",
})
local count = 0
for _, p in ipairs(tuned:trainable_parameters()) do count = count + p:numel() end
print(("adapters of %d parameters learn %s"):format(count, opt.text))
train(tuned, tuned:trainable_parameters(), read(opt.text), opt.steps, opt.lr)
tuned:save_pretrained(opt.save)
print "after:"
write(tuned:merge_and_unload())
