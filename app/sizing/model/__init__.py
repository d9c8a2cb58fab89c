"""Model counts: any configuration becomes a list of tensors, and every count is a sum over that list.

A tensor has a role, a part, a shape, its layers, a number of copies, and the number of copies that are multiplied
per token, per encoder position or per image token. Parameters by part, active parameters, FLOPs, bytes in every
format (scales included) and adapters are sums over the list. Cache and state follow from attention groups and
recurrent mixers. The counts are exact: tests compare them with the registered totals of the catalog and with
architectures instantiated by the transformers library.

If only the size is known, the model gets the proportions of the catalog's dense decoders: layers and hidden size
follow power laws of the parameter count, there are 8 key/value heads, and the MLP takes the remaining parameters.
The answer states the error of that rule over those models. A model that works on samples has a law of its work by
size, F(S) = fixed + a S + b S^2 over S positions (patches, frames, latent cells). The law is multiplied by denoising
steps and guidance, and work that runs once is added (text encoders, image decoder, speech encoder).
"""
