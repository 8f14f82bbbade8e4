-- nn.Transformer learns to sort numbers: the encoder reads them, the decoder writes them in order:
--
--    tlua examples/ported/transformer.lua
local torch = require "tlua"
local nn, optim = torch.nn, torch.optim
local F = nn.functional

local parser = torch.utils.options("transformer.lua", "Learns to sort.")
parser:option("--steps", "training steps", 150)
parser:option("--length", "numbers of a row", 6)
parser:option("--batch", "rows in a batch", 64)
parser:option("--seed", "seed of the random numbers", 1)
local opt = parser:parse()

torch.manual_seed(opt.seed)

local numbers, BOS, width = 10, 11, 32

local PositionalEncoding, parent = torch.class("PositionalEncoding", nn.Module)

function PositionalEncoding:__init(d_model, max_len)
   parent.__init(self)
   local position = torch.arange(0, max_len):unsqueeze(2)
   local div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
   local pe = torch.zeros(max_len, d_model)
   pe[{{}, {1, d_model, 2}}] = torch.sin(position * div_term)
   pe[{{}, {2, d_model, 2}}] = torch.cos(position * div_term)
   self:register_buffer("pe", pe)
end

function PositionalEncoding:forward(x) return x + self.pe[{{1, x:size(2)}}] end

local Sorter = torch.class("Sorter", nn.Module)

function Sorter:__init()
   nn.Module.__init(self)
   self.embedding = nn.Embedding(BOS, width)
   self.position = PositionalEncoding(width, 32)
   self.transformer = nn.Transformer {d_model = width, nhead = 4, num_encoder_layers = 2,
      num_decoder_layers = 2, dim_feedforward = 64, dropout = 0, batch_first = true}
   self.out = nn.Linear(width, numbers)
end

function Sorter:forward(source, target)
   local mask = nn.Transformer.generate_square_subsequent_mask(target:size(2))
   local embed = function(x) return self.position(self.embedding(x)) end
   return self.out(self.transformer(embed(source), embed(target), {tgt_mask = mask}))
end

local model = Sorter()
local optimizer = optim.AdamW(model:parameters(), {lr = 3e-3})
local function batch(n)
   local source = torch.randint(1, numbers + 1, {n, opt.length})
   local sorted = torch.sort(source, 2)
   local start = torch.full({n, 1}, BOS, {dtype = torch.long})
   return source, torch.cat({start, sorted[{{}, {1, -2}}]}, 2), sorted
end

for step = 1, opt.steps do
   local source, input, target = batch(opt.batch)
   optimizer:zero_grad()
   local loss = F.cross_entropy(model(source, input):flatten(1, 2), target:flatten())
   loss:backward()
   optimizer:step()
   if step % 50 == 0 then print(("step %3d  loss %.4f"):format(step, loss:item())) end
end

model:eval()
local _ <close> = torch.no_grad()
local source, input, target = batch(100)
local written = input[{{}, {1, 1}}]
for _ = 1, opt.length do
   local scores = model(source, written)
   written = torch.cat({written, scores[{{}, {-1, -1}}]:argmax(-1)}, 2)
end
local right = written[{{}, {2, -1}}]:eq(target):float():mean():item()
print(("numbers in their place: %.3f"):format(right))
