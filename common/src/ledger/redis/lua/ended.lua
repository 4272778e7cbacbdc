-- Whether each mini-batch has its outcome: a string of as many '0' and '1'.
-- ARGV: indexes, packed
local job, ended = KEYS[1], KEYS[2]
if redis.call('EXISTS', job) == 0 then return false end
local answers = {}
for at, index in ipairs(cmsgpack.unpack(ARGV[1])) do
  answers[at] = redis.call('GETBIT', ended, index)
end
return table.concat(answers)
