-- init.lua - torch.nn.modules: the classes of torch.nn by the paths that they have in PyTorch,
-- as in nn.modules.conv.Conv2d. Every file of PyTorch's is torch.nn itself here.

local lazy = require "tlua.lazy"

local fields = {}
for name, module in pairs(lazy.fields(require "tlua.nn")) do
   if name:find "^%u" then fields[name] = module end -- classes alone
end
for file in ([[activation adaptive batchnorm channelshuffle container conv distance dropout flatten
   fold instancenorm lazy linear loss module normalization padding pixelshuffle pooling rnn sparse
   transformer upsampling]]):gmatch "%a+" do
   fields[file] = "tlua.nn"
end

return lazy.load({}, fields)
