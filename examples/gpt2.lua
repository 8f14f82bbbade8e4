-- Trains GPT-2 from scratch on any text, and then writes text with it:
--
--    tlua examples/gpt2.lua README.md                       (two minutes on a CPU)
--    tlua examples/gpt2.lua book.txt --size gpt2 --device cuda --dtype bfloat16 --batch 32
--    tlua examples/gpt2.lua book.txt --resume gpt2-checkpoint --steps 2000
--    tlua run -n 8 examples/gpt2.lua book.txt --fsdp --tp 2 --pp 2 --accumulate 4
--
-- The tokens are learnt from the text, or read from a model's files: --vocab vocab.json --merges
-- merges.txt (Hugging Face), or --ranks gpt2.tiktoken.
local torch = require "tlua"
local optim = torch.optim

local here = arg[0]:match "^(.*)/" or "."
local GPT2 = dofile(here .. "/gpt2/model.lua")

local sizes = {
   tiny = {layers = 4, heads = 4, width = 128, context = 64, vocab = 512},
   small = {layers = 6, heads = 6, width = 384, context = 256, vocab = 4096},
   gpt2 = {layers = 12, heads = 12, width = 768, context = 1024, vocab = 50257},
}

local parser = torch.utils.options("gpt2.lua", "Trains GPT-2 on a text.")
parser:argument("text", "the file to train on")
parser:option("--size", "tiny, small or gpt2 (124M parameters)", "tiny")
parser:option("--steps", "steps of the optimizer", 300)
parser:option("--batch", "sequences in a pass", 16)
parser:option("--accumulate", "passes for each step", 1)
parser:option("--lr", "learning rate at its highest", 1e-3)
parser:option("--warmup", "steps until it is reached; then it falls as a cosine", 20)
parser:option("--decay", "weight decay of matrices", 0.1)
parser:option("--clip", "the largest norm of gradients", 1.0)
parser:option("--dropout", "share of activations that are dropped", 0.0)
parser:option("--dtype", "float32, or what autocast computes in: bfloat16, float16", "float32")
parser:option("--device", "where to compute: cpu, cuda, sim", "cpu")
parser:option("--seed", "what the random numbers start from", 1)
parser:option("--sample", "tokens to write in the end", 200)
parser:option("--prompt", "what the writing begins with", "\n")
parser:option("--save", "where the checkpoint goes", "gpt2-checkpoint")
parser:option("--resume", "a checkpoint to go on from", "")
parser:option("--vocab", "vocab.json of Hugging Face", "")
parser:option("--merges", "merges.txt of Hugging Face", "")
parser:option("--ranks", "tiktoken's file of ranks", "")
parser:flag("--checkpoint", "compute blocks again in the backward pass, to save memory")
parser:flag("--no-graph", "on a device: do not capture steps")
parser:option("--tp", "processes that share each matrix", 1)
parser:option("--pp", "processes that have the layers in turn, for --accumulate passes", 1)
parser:flag("--fsdp", "of processes that share the batch, each keeps a part of the model")
local opt = parser:parse()

torch.manual_seed(opt.seed)
local kind = opt.device:match "^%a+"
local config = assert(sizes[opt.size], "--size: expected tiny, small or gpt2, got " .. opt.size)
config.dropout, config.checkpoint = opt.dropout, opt.checkpoint

-- true if several processes (tlua run) share the work by splitting the batch or the model
local many = opt.fsdp or opt.tp > 1 or opt.pp > 1 or (tonumber(os.getenv "WORLD_SIZE") or 1) > 1
local parallel = many and dofile(here .. "/gpt2/parallel.lua")(opt)
local first_process = not many or torch.distributed.get_rank() == 0
local say = first_process and print or function() end
if many then
   assert(opt.dtype == "float32", "--dtype: several processes train in float32")
   config.by_heads, config.untied = true, opt.pp > 1
end

-- A checkpoint of many processes is a folder, which one process can also read.
local function is_folder(path)
   local index = path ~= "" and io.open(path .. "/index.json")
   return index and index:close() or false
end

local resumed = is_folder(opt.resume)
if resumed then
   local shape = {by_heads = false, untied = false}
   torch.distributed.checkpoint.load({shape = shape}, {checkpoint_id = opt.resume})
   config.by_heads, config.untied = shape.by_heads, shape.untied
end

-- Tokens ---------------------------------------------------------------------------------------

local file = assert(io.open(opt.text, "rb"))
local text = file:read "a"
file:close()

local function read_tokens()
   if opt.ranks ~= "" then return assert(torch.text.BPE.load_tiktoken(opt.ranks)) end
   if opt.vocab ~= "" then return assert(torch.text.BPE.load(opt.vocab, opt.merges)) end
   return torch.text.BPE.train(text, {vocab_size = config.vocab})
end

local bpe = read_tokens()
config.vocab = bpe.vocab_size
local tokens = torch.tensor(bpe:encode(text))
assert(#tokens > config.context + 1, opt.text .. ": too short for a context of " .. config.context)

-- Returns a batch from random positions in the text: the tokens, and for each token the next one. A
-- checkpoint has the state of the generator, so resumed training goes on with the same positions.
local function batch()
   local starts = torch.randint(1, #tokens - config.context + 1, {opt.batch, 1})
   local places = starts + torch.arange(config.context)
   return tokens[places], tokens[places + 1]
end

-- Training -------------------------------------------------------------------------------------

local model = GPT2(config):to(opt.device)
if many then parallel:part(model) end
local rate = torch.tensor(0.0):to(opt.device)
local adam = optim.AdamW(model:groups(opt.decay), {
   lr = rate, betas = {0.9, 0.95}, capturable = kind ~= "cpu",
})
if many then parallel:split(model) end
local scaler = torch.amp.GradScaler(kind, {enabled = opt.dtype == "float16"})

local count = 0
for _, p in ipairs(model:parameters()) do count = count + p:numel() end
say(("%d tokens of %d kinds, %.2fM parameters%s"):format(#tokens, config.vocab, count / 1e6,
   many and " on the first process" or ""))

local function learning_rate(step)
   if step <= opt.warmup then return opt.lr * step / opt.warmup end
   local done = (step - opt.warmup) / math.max(1, opt.steps - opt.warmup)
   return opt.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * math.min(done, 1))))
end

-- Trains on a batch; x and y have the shape (accumulate, batch, context).
local function train(x, y)
   adam:zero_grad()
   local total
   if many then
      total = parallel:train(x, y)
      parallel:clip(opt.clip)
      adam:step()
      return total
   end
   for i = 1, opt.accumulate do
      local loss = torch.autocast({
         device = kind, enabled = opt.dtype ~= "float32",
         dtype = opt.dtype ~= "float32" and opt.dtype or nil,
      }, function() return model(x[i], y[i]) / opt.accumulate end)
      scaler:scale(loss):backward()
      total = total and total + loss:detach() or loss:detach()
   end
   scaler:step(adam, {max_norm = opt.clip})
   scaler:update()
   return total
end

local step = function(x, y) return train(x:to(opt.device), y:to(opt.device)) end
if kind ~= "cpu" and not opt.no_graph and not many then
   local example = torch.ones(opt.accumulate, opt.batch, config.context, {dtype = "int64"})
   step = torch[kind].capture_step(train, {example, example})
end

-- Returns the contents of a checkpoint: the modules and the optimizers, whose parts may be on
-- several ranks.
local function all_of(done)
   return {
      model = model:modules_by_path(), optimizer = adam, random = torch.get_rng_state(),
      step = done,
      shape = {by_heads = config.by_heads or false, untied = config.untied or false},
   }
end

local first = 1
if resumed then
   local state = all_of(0)
   torch.distributed.checkpoint.load(state, {checkpoint_id = opt.resume})
   torch.set_rng_state(state.random)
   first = state.step + 1
elseif opt.resume ~= "" then
   local saved = torch.load(opt.resume)
   model:load_state_dict(saved.model)
   adam:load_state_dict(saved.optimizer)
   scaler:load_state_dict(saved.scaler)
   torch.set_rng_state(saved.random)
   for _, group in ipairs(adam.param_groups) do group.lr = rate end
   first = saved.step + 1
end

local started = torch.io.clock()
for at = first, opt.steps do
   local xs, ys = {}, {}
   for i = 1, opt.accumulate do xs[i], ys[i] = batch() end
   rate:fill_(learning_rate(at))
   local loss = step(torch.stack(xs), torch.stack(ys))
   if at % 20 == 0 or at == opt.steps or at == first then
      say(("step %d  loss %.4f  %.0f s"):format(at, loss:item(), torch.io.clock() - started))
   end
end
if many then
   torch.distributed.checkpoint.save(all_of(opt.steps), {checkpoint_id = opt.save})
else
   torch.save({
      model = model:state_dict(), optimizer = adam:state_dict(), scaler = scaler:state_dict(),
      random = torch.get_rng_state(), step = opt.steps,
   }, opt.save)
end

-- Writing --------------------------------------------------------------------------------------

if opt.pp == 1 then -- text of a pipeline is sampled later, by a single process with --resume
   local prompt = torch.tensor({bpe:encode(opt.prompt)}):to(opt.device)
   say(bpe:decode(model:sample(prompt, opt.sample, 0.8, 40)[1]:cpu()))
end
if many then torch.distributed.destroy_process_group() end
