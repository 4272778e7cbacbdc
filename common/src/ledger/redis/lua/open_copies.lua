-- open_copies
-- The copies that are wanted and not taken: index, and the worker that offers it ('' where none does). Those of mini-batches
-- that have their outcome are forgotten.
local job, ended, open_copies = KEYS[1], KEYS[2], KEYS[3]
if redis.call('EXISTS', job) == 0 then return false end
local open = {}
local fields = redis.call('HGETALL', open_copies)
for at = 1, #fields, 2 do
  if redis.call('GETBIT', ended, fields[at]) == 1 then
    redis.call('HDEL', open_copies, fields[at])
  else
    open[#open + 1] = { tonumber(fields[at]), fields[at + 1] }
  end
end
return open
